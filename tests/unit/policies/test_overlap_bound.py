"""How early a chain lets its next link start."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import copy

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync
from mirage.chains.lifecycle import Registration
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.domain.snapshot import Snapshot
from mirage.policies.rules.overlap_bound import bound_overlap, compute_max_lead_s
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers
from tests.support.policies.views import view
from tests.support.provision import slurm_jobs
from tests.support.provision.scene import Always

HOUR = 3600
FREES = Decision(action=Action.FREE, reason="x", policy="p")


def frees(p10_h: float | None) -> Decision:
    p10_s = None if p10_h is None else p10_h * HOUR
    return replace(FREES, forecast=Forecast(p10_s=p10_s, p50_s=10 * HOUR))


@pytest.mark.parametrize(
    ("left_h", "p10_h", "action"),
    [
        (4.0, None, Action.FREE),
        (4.1, None, Action.WAIT),
        (10.0, 6.0, Action.FREE),
        (10.1, 6.0, Action.WAIT),
    ],
)
def test_a_standby_is_freed_while_its_start_cannot_be_too_early(
    left_h: float, p10_h: float | None, action: Action
) -> None:
    shown = view(round(left_h * HOUR), max_overlap_s=4 * HOUR)
    answer = bound_overlap(frees(p10_h), shown)
    assert answer.action is action
    assert answer.forecast == frees(p10_h).forecast
    assert action is Action.FREE or "max-overlap" in answer.reason


def test_one_that_may_give_its_nodes_back_is_freed_if_it_is_likely_to_start_in_time() -> None:
    forecast = Forecast(p10_s=0, p50_s=6 * HOUR)
    shown = view(10 * HOUR, max_overlap_s=4 * HOUR, returns=1)
    decision = replace(FREES, forecast=forecast)
    assert bound_overlap(decision, shown).action is Action.FREE
    assert compute_max_lead_s(decision, shown) == 10 * HOUR
    too_early = replace(shown, predecessor_end=shown.predecessor_end + 60)
    waits = bound_overlap(decision, too_early)
    assert waits.action is Action.WAIT
    assert "every other such wait is shorter than 6.0 h" in waits.reason
    assert bound_overlap(decision, replace(shown, returns=0)).action is Action.WAIT


def test_what_was_sent_back_once_is_not_freed_by_a_forecast_again() -> None:
    shown = view(10 * HOUR, max_overlap_s=4 * HOUR, counts_no_wait=True)
    assert bound_overlap(frees(p10_h=9.0), shown).action is Action.WAIT
    late = replace(shown, predecessor_end=shown.now + 4 * HOUR)
    assert bound_overlap(frees(p10_h=9.0), late).action is Action.FREE


def test_nothing_bounds_a_hand_over_without_a_bound() -> None:
    assert bound_overlap(FREES, view(100 * HOUR)) == FREES


def test_what_must_leave_its_nodes_too_early_to_be_freed_is_held() -> None:
    shown = view(10 * HOUR, max_overlap_s=HOUR, position=Position.PINNED)
    assert bound_overlap(FREES, shown).action is Action.HOLD


@pytest.mark.parametrize(
    ("position", "can_pin", "action"),
    [
        (Position.HELD, True, Action.PIN),
        (Position.HELD, False, Action.WAIT),
        (Position.PINNED, True, Action.WAIT),
        (Position.PINNED, False, Action.HOLD),
    ],
)
def test_links_that_never_overlap_are_pinned_or_held(
    position: Position, can_pin: bool, action: Action
) -> None:
    shown = view(60, max_overlap_s=0, position=position, can_pin=can_pin)
    assert bound_overlap(frees(p10_h=5.0), shown).action is action


@pytest.mark.parametrize("action", [Action.WAIT, Action.PIN, Action.HOLD])
def test_only_freeing_is_bounded(action: Action) -> None:
    other = replace(FREES, action=action)
    assert bound_overlap(other, view(60, max_overlap_s=0)) == other


@pytest.mark.parametrize(
    ("cap_s", "left_s", "told"),
    [
        (0, 60, []),
        (600, 601, []),
        (600, 600, [("free", 12, "")]),
    ],
)
def test_slurm_hears_of_it_when_the_chain_allows_it(
    sqlite_template: Path, tmp_path: Path, cap_s: int, left_s: int, told: list[object]
) -> None:
    copy(sqlite_template, tmp_path / "mirage.db")
    now = slurm_jobs.NOW
    shown = [slurm_jobs.running(1, start=now - HOUR + left_s), slurm_jobs.standby(2)]
    cluster = slurm_jobs.WrittenCluster(*shown)
    with closing(Store(f"sqlite:///{tmp_path}/mirage.db")) as store:
        with store.begin() as tx:
            clusters.set_mode(tx, clusters.ensure_cluster(tx, "lab"), Mode.ACT)
            new = Registration(chain_id=slurm_jobs.CHAIN, links=3, max_overlap_s=cap_s)
            chain_service.register_chain(
                tx, 1, new, uid=slurm_jobs.ALICE, user="alice", now=now - HOUR
            )
            link_sync.sync_links(tx, 1, shown, now)
        snapshot = Snapshot(queue=cluster.fetch_queue(), nodes=())
        provision_handovers(
            store,
            cluster,
            1,
            snapshot,
            DecisionSettings(get_policy=Always, default_policy="always"),
        )
    assert cluster.moves == told
