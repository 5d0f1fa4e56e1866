"""A card tells what the model and the rules came to on weeks that the model had not seen."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.judging import policy_runner
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.artefact.holdout_metrics import HoldoutMetrics
from mirage.lab.training.dataset import Rows
from mirage.lab.training.metrics import operating_points
from mirage.lab.training.trees import tree_training
from mirage.observation import spec
from mirage.policies.results import card_results
from mirage.policies.results.card_results import CardResultsLookup
from tests.support.episodes import tables as by_hand
from tests.support.episodes.tables import HOUR_S
from tests.support.policies.views import view
from tests.support.training.queue_tables import at_load, queue_table
from tests.support.training.trained import FAMILIES

EVERY = 6


def test_the_results_of_a_card_are_those_of_the_rolling_windows() -> None:
    table = queue_table()
    rows = Rows.from_tables([table], EVERY)
    judging = HoldoutMetrics(rows, [table], EVERY)
    metrics = tree_training.judge_family(rows, FAMILIES[1], 2, 0, on_window=judging)
    sets = card_results.parse_card({"judged": judging.list_results()})
    asked = CardResultsLookup({"models/made/1": sets})
    limit_s = table.metadata.time_limit_s
    found = asked(view(0, cluster="made", time_limit_s=limit_s))
    for name in ("models/made/1", "reactive"):
        family = FAMILIES[1].name if name.startswith("models") else name
        wanted = metrics["policies"][family]["all"]["cost_h"]
        assert np.isclose(found.compute_cost_h(name, 0.5).mean(), wanted, atol=1e-3)
    assert "quantile" in found.names
    half = table.start_point[len(table) // 2 :]
    assert found.start_point.tolist() == half.tolist()
    assert (found.known_at >= found.start_point + limit_s).all()
    assert found.load_h[0] == np.mean([600, 1200, 7200]) / HOUR_S


def test_only_chains_of_that_cluster_and_about_that_size_are_told_of() -> None:
    table = queue_table()
    rows = Rows.from_tables([table], EVERY)
    judging = HoldoutMetrics(rows, [table], EVERY)
    window = np.arange(len(table)) < 10
    for price in (0.15, 1.5):
        judging(window, price, np.full(10, 2 if price < 1.0 else 4))
    asked = CardResultsLookup({"m": card_results.parse_card({"judged": judging.list_results()})})
    limit_s = table.metadata.time_limit_s

    def told(**fields: object) -> int:
        return len(asked(view(0, **{"cluster": "made", "time_limit_s": limit_s, **fields})))

    assert told() == told(nodes=2) == 10
    assert told(nodes=3) == told(cluster="other") == told(cluster="") == 0
    assert told(time_limit_s=limit_s + 600) == 0
    cheap, dear = (
        asked(view(0, cluster="made", time_limit_s=limit_s, overlap_price=p)) for p in (0.2, 1.0)
    )
    last = table.outcome_s.shape[1] - 1
    taken = np.arange(last, -1, -EVERY)[::-1]
    for found, k in ((cheap, 2), (dear, 4)):
        wanted = table.outcome_h[:10, taken[k]]
        assert np.allclose(found.x_h[:, found.names.index("m")], wanted, atol=1e-3)
    assert np.allclose(
        cheap.x_h[:, cheap.names.index("reactive")],
        table.outcome_h[np.arange(10), policy_runner.choose_reactive(table)[:10]],
    )


def test_results_of_one_partition_are_none_of_anothers() -> None:
    """Two tables of one size would else take each other's place."""
    tables = [queue_table(12, seed=s) for s in (1, 2)]
    for table, partition in zip(tables, ("gpu", "cpu"), strict=True):
        table.metadata = replace(table.metadata, partition=partition)
    judging = HoldoutMetrics(Rows.from_tables(tables, EVERY), tables, EVERY)
    judging(np.ones(24, dtype=np.bool_), 0.5, np.full(24, 2))
    sets = card_results.parse_card({"judged": judging.list_results()})
    limit_s = tables[0].metadata.time_limit_s

    def cost_h(asked: CardResultsLookup, partition: str) -> list[float]:
        seen = view(0, cluster="made", time_limit_s=limit_s, partition=partition)
        return [float(hours) for hours in asked(seen).compute_cost_h("reactive", 0.5)]

    asked = CardResultsLookup({"m": sets})
    for table, partition in zip(tables, ("gpu", "cpu"), strict=True):
        wanted = np.maximum(table.outcome_h[:, -1], 0.0)
        assert cost_h(asked, partition) == pytest.approx(wanted, abs=1e-3)
    assert cost_h(asked, "long") == []
    # What names no partition is of the cluster's first, and tells of all that have none.
    anywhere = CardResultsLookup({"m": [replace(sets[0], partition="")]})
    assert cost_h(anywhere, "gpu") == cost_h(anywhere, "long") == cost_h(asked, "gpu")


def test_where_the_last_step_is_shorter_rules_are_asked_as_often() -> None:
    """A time limit of 3 h 59 min: no instant is a multiple of ten minutes before the end."""
    whole = queue_table()
    at = whole.instant_s.copy()
    at[-1] -= 60
    columns = {n: whole._columns[n] for n in whole._columns}
    columns |= {"instant_s": at, "predecessor_end": whole.predecessor_end - 60}
    odd = EpisodeTable(whole.metadata, columns)
    for table in (whole, odd):
        judging = HoldoutMetrics(Rows.from_tables([table], EVERY), [table], EVERY)
        judging(np.ones(len(table), dtype=np.bool_), 0.5, np.full(len(table), 2))
        (found,) = judging.list_results()
        columns_s = found["x_s"]["0.5"]
        assert columns_s["fixed-lead"] != columns_s["reactive"]


def test_operating_points_are_of_the_judged_hand_overs_of_each_table() -> None:
    table = queue_table()
    judging = HoldoutMetrics(Rows.from_tables([table], EVERY), [table], EVERY)
    last = table.outcome_s.shape[1] - 1
    taken = np.arange(last, -1, -EVERY)[::-1]
    window = np.arange(len(table)) < 60
    for price, instant in ((0.3, 0), (1.0, 2), (2.0, len(taken) - 1)):
        judging(window, price, np.full(60, instant))
    found = judging.list_operating_points()
    x_h = {p: table.outcome_h[:60, taken[k]] for p, k in ((0.3, 0), (1.0, 2), (2.0, -1))}
    for point, limit in zip(found, operating_points.OVERLAPS_H, strict=True):
        assert point["overlap_at_most_h"] == limit
        assert point["nodes"] == table.metadata.nodes
        wanted = operating_points.find_operating_point(x_h, table.start_point[:60], limit)
        assert {name: point[name] for name in wanted} == wanted
    assert found[0]["price"] > found[1]["price"]


def test_a_table_without_judged_hand_overs_is_left_out() -> None:
    table = queue_table()
    judging = HoldoutMetrics(Rows.from_tables([table], EVERY), [table], EVERY)
    assert judging.list_results() == []
    assert [point["price"] for point in judging.list_operating_points()] == [None, None]


def test_a_table_at_another_load_tells_no_results() -> None:
    """It is of the same chains as the logged one, and would take its place."""
    tables = [queue_table(24), at_load(queue_table(24, seed=3), 1.2)]
    rows = Rows.from_tables(tables, EVERY)
    judging = HoldoutMetrics(rows, tables, EVERY)
    judging(rows.as_logged, 0.5, np.full(24, 2))
    assert len(judging.list_results()) == 1
    assert len(judging.list_operating_points()) == len(operating_points.OVERLAPS_H)


def test_rules_are_asked_about_chains_of_less_than_an_hour() -> None:
    made = by_hand.table([[-0.5, 0.0, 0.5, 2.0]] * 12, waits_s=(7200, 7200, 7200))
    metadata = replace(
        made.metadata,
        time_limit_s=1800,
        features=spec.FEATURE_NAMES,
        features_fingerprint=spec.FINGERPRINT,
    )
    seen = np.zeros((12, 4, len(spec.FEATURE_NAMES)), dtype=np.float32)
    columns = {name: made._columns[name] for name in made._columns} | {"observations": seen}
    short = EpisodeTable(metadata, columns)
    judging = HoldoutMetrics(Rows.from_tables([short], EVERY), [short], EVERY)
    judging(np.ones(12, dtype=np.bool_), 0.5, np.zeros(12, dtype=np.int64))
    asked = CardResultsLookup({"m": card_results.parse_card({"judged": judging.list_results()})})
    found = asked(view(0, cluster="made", time_limit_s=1800))
    rule, reactive = (found.x_h[:, found.names.index(n)] for n in ("fixed-lead", "reactive"))
    assert -0.5 in rule.tolist()
    assert set(reactive.tolist()) == {2.0}
