"""A card tells what the model and the rules came to on weeks that the model had not seen."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mirage.domain.arrays import Flags
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import Policy, SimplePolicy
from mirage.judging import policy_runner
from mirage.judging.policy_runner import Terms
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.evaluation.policy_evaluation import MOST_RETURNS
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.artefact.holdout_judge import PRICES, HoldoutJudge, JudgedWindow
from mirage.lab.training.metrics import operating_points
from mirage.observation import spec
from mirage.policies.results import card_results
from mirage.policies.results.card_results import CardResults, CardResultsLookup
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from tests.support.episodes import tables as by_hand
from tests.support.episodes.tables import HOUR_S
from tests.support.policies.views import view
from tests.support.training.queue_tables import add_forecasts, at_load, queue_table
from tests.support.training.trained import FAMILIES, served

SILENT = StudyOutput(warn=lambda _: None, show_progress=lambda *_: nullcontext(lambda *_: None))


@dataclass(frozen=True)
class ByPrice(SimplePolicy):
    """Frees so many seconds before the predecessor's end, by the overlap price."""

    lead_s: Mapping[float, int]
    name: str = "made"

    def decide(self, view: PolicyView) -> Decision:
        is_now = view.time_left_s <= self.lead_s[view.overlap_price]
        return Decision(
            action=Action.FREE if is_now else Action.WAIT, reason="so it is", policy=self.name
        )


def judge(
    tables: Sequence[EpisodeTable],
    windows: Sequence[Flags],
    policy: Policy,
    prices: Sequence[float] = operating_points.PRICES,
) -> HoldoutJudge:
    """A judge of one model that is the same in each window."""
    judged = [JudgedWindow(window, {"model": policy}) for window in windows]
    return HoldoutJudge(tables, judged, SILENT, prices)


def read_results(judging: HoldoutJudge, **fields: object) -> tuple[CardResults, ...]:
    sets = judging.list_results()
    return card_results.parse_card({"judged": [each | fields for each in sets]})


def test_the_results_of_a_card_are_those_of_its_metrics() -> None:
    table = queue_table(60)
    at = np.arange(60)
    windows = [(at >= 30) & (at < 45), at >= 45]
    judging = judge([table], windows, served(FAMILIES[1]))
    policies = judging.build_metrics()["policies"]
    asked = CardResultsLookup({"models/made/1": read_results(judging)})
    limit_s = table.metadata.time_limit_s
    results = asked(view(0, cluster="made", time_limit_s=limit_s))
    for name in ("models/made/1", "reactive", "quantile", "fixed-lead"):
        wanted = policies["model" if name.startswith("models") else name]["all"]["cost_h"]
        assert np.isclose(results.compute_cost_h(name, 0.5).mean(), wanted, atol=1e-3)
    assert policies["model"]["all"]["returns"] > 0.0
    assert results.start_point.tolist() == table.start_point[30:].tolist()
    assert (results.known_at >= results.start_point + limit_s).all()
    assert results.load_h[0] == np.mean([600, 1200, 7200]) / HOUR_S


def test_each_window_is_played_by_the_model_that_was_trained_before_it() -> None:
    table = queue_table(40)
    at = np.arange(40)
    windows = [
        JudgedWindow(at < 20, {"model": AtOnce()}),
        JudgedWindow(at >= 20, {"model": Reactive()}),
    ]
    (columns,) = HoldoutJudge([table], windows, SILENT).list_results()
    terms = Terms(overlap_price=0.5, returns=MOST_RETURNS, guarded=True)
    at_once = policy_runner.play_policy(table, AtOnce(), terms).release_instants
    x_s = [int(text) for text in columns["x_s"]["0.5"]["model"].split()]
    rows = np.arange(40)
    assert x_s[:20] == table.outcome_s[rows, at_once][:20].tolist()
    assert x_s[20:] == table.outcome_s[20:, -1].tolist()


def test_hand_overs_are_played_at_each_ten_minute_instant() -> None:
    """Thinned to one an hour, no release of 50 minutes could be chosen."""
    table = queue_table(12)
    judging = judge([table], [np.ones(12, dtype=np.bool_)], ByPrice(dict.fromkeys(PRICES, 3000)))
    assert judging.build_metrics()["policies"]["model"]["all"]["lead_h"] <= 3000 / HOUR_S
    results = read_results(judging)[0].by_price[0.5]
    of_model = results.x_h[:, results.names.index("model")]
    kept = results.returns is not None and results.returns[:, results.names.index("model")] == 0
    assert np.allclose(of_model[kept], table.outcome_h[:, -6][kept], atol=1e-3)


def test_only_chains_of_that_cluster_and_about_that_size_are_told_of() -> None:
    table = queue_table(30)
    judging = judge([table], [np.arange(30) < 10], ByPrice({0.15: 7200, 0.5: 3600, 1.5: 0}))
    asked = CardResultsLookup({"m": read_results(judging)})
    limit_s = table.metadata.time_limit_s

    def count(**fields: object) -> int:
        return len(asked(view(0, **{"cluster": "made", "time_limit_s": limit_s, **fields})))

    assert count() == count(nodes=2) == 10
    assert count(nodes=3) == count(cluster="other") == count(cluster="") == 0
    assert count(time_limit_s=limit_s + 600) == 0
    dear = asked(view(0, cluster="made", time_limit_s=limit_s, overlap_price=1.2))
    for name in ("m", "reactive"):
        x_h = dear.x_h[:, dear.names.index(name)]
        assert np.allclose(x_h, table.outcome_h[:10, -1], atol=1e-3)


def test_results_of_one_partition_are_none_of_anothers() -> None:
    """Two tables of one size would else take each other's place."""
    tables = [queue_table(12, seed=s) for s in (1, 2)]
    for table, partition in zip(tables, ("gpu", "cpu"), strict=True):
        table.metadata = replace(table.metadata, partition=partition)
    sets = read_results(judge(tables, [np.ones(24, dtype=np.bool_)], AtOnce()))
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


def test_operating_points_are_of_the_judged_hand_overs_of_each_table() -> None:
    table = queue_table(80)
    leads_s = {0.3: 14400, 1.0: 7200, 2.0: 0}
    judging = judge([table], [np.arange(80) < 60], ByPrice(leads_s), tuple(leads_s))
    points = judging.list_operating_points()
    x_h = {
        price: outcomes_h(table.select_episodes(np.arange(60)), ByPrice(leads_s), price)
        for price in leads_s
    }
    for point, limit_h in zip(points, operating_points.OVERLAPS_H, strict=True):
        assert point["overlap_at_most_h"] == limit_h
        assert point["nodes"] == table.metadata.nodes
        wanted = operating_points.find_operating_point(
            tuple(leads_s), x_h.__getitem__, table.start_point[:60], limit_h
        )
        assert {name: point[name] for name in wanted} == wanted
    assert points[0]["price"] is not None


def outcomes_h(table: EpisodeTable, policy: Policy, price: float) -> np.ndarray:
    terms = Terms(overlap_price=price, returns=MOST_RETURNS, guarded=True)
    chosen = policy_runner.play_policy(table, policy, terms).release_instants
    outcomes: np.ndarray = table.outcome_h[np.arange(len(table)), chosen]
    return outcomes


def test_a_table_without_judged_hand_overs_is_left_out() -> None:
    judging = judge([queue_table(12)], [], AtOnce())
    assert judging.list_results() == []
    assert judging.build_metrics()["policies"] == {}
    assert [point["price"] for point in judging.list_operating_points()] == [None, None]


def test_a_table_at_another_load_tells_no_results() -> None:
    """It is of the same chains as the logged one, and would take its place."""
    tables = [queue_table(24), at_load(queue_table(24, seed=3), 1.2)]
    # `Rows` has the episodes of both in turn.
    judging = judge(tables, [np.arange(48) % 2 == 0], AtOnce())
    (judged,) = judging.list_results()
    assert len(judged["start_point"].split()) == 24
    assert len(judging.list_operating_points()) == len(operating_points.OVERLAPS_H)


def test_the_twin_is_judged_where_all_tables_have_its_answers() -> None:
    tables = [add_forecasts(queue_table(12, seed=1)), queue_table(12, seed=2)]
    judging = judge(tables, [np.ones(24, dtype=np.bool_)], AtOnce())
    assert "twin" not in judging.build_metrics()["policies"]
    first, second = judging.list_results()
    assert "twin" in first["x_s"]["0.5"]
    assert "twin" not in second["x_s"]["0.5"]


def test_a_card_of_an_older_release_still_tells_its_results() -> None:
    judging = judge([queue_table(12)], [np.ones(12, dtype=np.bool_)], AtOnce())
    (judged,) = judging.list_results()
    del judged["returns"]
    (older,) = card_results.parse_card({"judged": [judged]})
    (newer,) = read_results(judging)
    for price in PRICES:
        assert older.by_price[price].returns is None
        np.testing.assert_array_equal(older.by_price[price].x_h, newer.by_price[price].x_h)
    asked = CardResultsLookup({"old": [older], "new": [newer]})
    both = asked(view(0, cluster="made", time_limit_s=older.time_limit_s))
    costs_h = {name: both.compute_cost_h(name, 0.5) for name in ("old", "new")}
    assert (costs_h["old"] < costs_h["new"]).any()
    assert (costs_h["old"] <= costs_h["new"]).all()


def test_rules_are_asked_about_chains_of_less_than_an_hour() -> None:
    made = by_hand.table([[0.25, 0.5, 1.0, 2.0]] * 12, waits_s=(7200, 7200, 7200))
    metadata = replace(
        made.metadata,
        time_limit_s=1800,
        features=spec.FEATURE_NAMES,
        features_fingerprint=spec.FINGERPRINT,
    )
    seen = np.zeros((12, 4, len(spec.FEATURE_NAMES)), dtype=np.float32)
    columns = {name: made._columns[name] for name in made._columns} | {"observations": seen}
    short = EpisodeTable(metadata, columns)
    judging = judge([short], [np.ones(12, dtype=np.bool_)], AtOnce())
    asked = CardResultsLookup({"m": read_results(judging)})
    results = asked(view(0, cluster="made", time_limit_s=1800))
    rule, reactive = (results.x_h[:, results.names.index(n)] for n in ("quantile", "reactive"))
    assert set(rule.tolist()) == {0.25}
    assert set(reactive.tolist()) == {2.0}
