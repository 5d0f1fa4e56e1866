"""Outcomes of hand-overs, and what they add up to: against plain numbers, on both databases."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import NewDecision
from mirage.database.chains.handover_outcomes import list_would_free, put_would_free
from mirage.database.schema.engine import Store
from mirage.database.schema.read_model_tables import policy_outcomes
from mirage.domain.callers.caller import Principal, Role
from mirage.domain.chain import Chain, ChainId, Link, LinkState, Position
from mirage.domain.decision import Action, Decision, Mode
from mirage.domain.job import JobId, JobState
from mirage.reports import handover_outcomes
from mirage.reports.impact import FIRST, HandoverTotals, Impact, build_impact
from tests.support.provision.scene import CHAIN, HOUR, Always, Scene

DAY = 86400
START = 20_000 * DAY
ADMIN = Principal(uid=0, user="root", role=Role.ADMIN)


def hand_over(  # noqa: PLR0913 - what one is like
    store: Store,
    cluster_id: int,
    day: int,
    *,
    late_s: int,
    mode: Mode | None = Mode.SHADOW,
    leads: dict[str, int] | None = None,
    user: str = "alice",
    **standby: Any,
) -> None:
    """A predecessor of 10 h ends at noon of that day, its successor starts `late_s` after it."""
    end = START + day * DAY + 12 * HOUR
    uid = {"alice": 1001, "bob": 1002}[user]
    chain_id = ChainId(f"chain{user}{day:04}")
    given: dict[str, Any] = {"partition": "gpu", "account": f"of-{user}", "nodes": 2}
    first = Link(
        chain_id=chain_id,
        index=1,
        job_id=JobId(10 * uid + 10_000 * day + 1),
        submit=end - DAY,
        state=LinkState.ENDED,
        position=Position.FREE,
        start=end - 10 * HOUR,
        end=end,
        end_state=JobState.TIMEOUT,
        **given,
    )
    second = replace(
        first,
        index=2,
        job_id=JobId(first.job_id + 1),
        state=LinkState.RUNNING,
        start=end + late_s,
        end=None,
        end_state=None,
    )
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, Chain(chain_id=chain_id, uid=uid, user=user))
        chains.save_link(tx, cluster_id, first)
        chains.save_link(tx, cluster_id, replace(second, **standby))
        if mode is not None:
            waits = Decision(action=Action.WAIT, reason="not yet", policy="auto")
            new = NewDecision(at=end - HOUR, chain_id=chain_id, index=2, mode=mode, decision=waits)
            decisions.record_decisions(tx, cluster_id, [new])
        rows = [(chain_id, 2, policy, end - lead) for policy, lead in (leads or {}).items()]
        put_would_free(tx, rows)


def summed(store: Store, cluster_id: int, reader: Principal = ADMIN) -> Impact:
    with store.begin() as tx:
        handover_outcomes.record_outcomes(tx, cluster_id)
    with store.read() as tx:
        return build_impact(tx, cluster_id, 0, START + 100 * DAY, reader)


def saved(part: HandoverTotals) -> dict[str, float]:
    return {one.baseline: round(one.interruption_saved_h, 3) for one in part.saved}


def test_nothing_is_nothing(store: Store, cluster_id: int) -> None:
    found = summed(store, cluster_id)
    assert (found.act.handovers, found.shadow.handovers, found.days) == (0, 0, ())
    assert "0 on 0 days can be compared" in found.too_few


def test_in_shadow_what_was_is_plain_slurms_and_mirages_is_an_estimate(
    store: Store, cluster_id: int
) -> None:
    """A wait of 5 h. Mirage would have freed 4 h before: 1 h late. fixed-lead 7 h: 2 h early."""
    leads = {"mirage": 4 * HOUR, "fixed-lead": 7 * HOUR, "average": 3 * HOUR}
    hand_over(store, cluster_id, 0, late_s=5 * HOUR, leads=leads)
    found = summed(store, cluster_id)
    assert found.act.handovers == 0
    part = found.shadow
    assert (part.handovers, part.compared, part.interruption_h) == (1, 1, 5.0)
    assert (part.mirage_interruption_h, part.mirage_overlap_node_h) == (1.0, 0.0)
    assert part.mirage_overlap_h == 0.0
    assert saved(part) == {
        "reactive": 4.0,
        "fixed-lead": -1.0,
        "average": 1.0,
        "slurm-estimate": 4.0,  # it would never have freed it
    }
    overlaps = {one.baseline: one.baseline_overlap_h for one in part.saved}
    assert overlaps == {"reactive": 0, "fixed-lead": 2.0, "average": 0, "slurm-estimate": 0}


def test_in_act_what_was_is_mirages(store: Store, cluster_id: int) -> None:
    """Freed 6 h before, it started 1 h before: it waited 5 h, and 2 nodes ran twice for an hour."""
    freed_at = START + 12 * HOUR - 6 * HOUR
    hand_over(store, cluster_id, 0, late_s=-HOUR, mode=Mode.ACT, freed_at=freed_at)
    found = summed(store, cluster_id)
    assert (found.act.interruption_h, found.act.overlap_node_h) == (0.0, 2.0)
    assert found.act.mirage_overlap_h == 1.0
    assert saved(found.act)["reactive"] == 5.0
    (payer,) = found.payers
    assert (payer.account, payer.user, payer.overlap_node_h) == ("of-alice", "alice", 2.0)
    assert payer.saved_h == 5.0
    (chain,) = found.chains
    assert (chain.chain_id, chain.partition) == ("chainalice0000", "gpu")
    (day,) = found.days
    assert (day.at, day.act_saved_h, day.shadow_saved_h, day.overlap_node_h) == (START, 5, 0, 2)
    (of_partition,) = found.partitions
    assert (of_partition.partition, of_partition.act) == ("gpu", found.act)


def test_what_no_other_moment_can_be_told_of_is_compared_with_nothing(
    store: Store, cluster_id: int
) -> None:
    hand_over(store, cluster_id, 0, late_s=0, mode=Mode.ACT, position=Position.PINNED)
    hand_over(store, cluster_id, 1, late_s=HOUR, mode=Mode.ACT, hindered="JobHeldUser")
    hand_over(store, cluster_id, 2, late_s=HOUR, mode=None)
    found = summed(store, cluster_id)
    assert (found.act.handovers, found.act.compared, found.act.saved) == (2, 0, ())
    assert found.act.interruption_h == 1.0
    assert found.unasked == 1
    assert [p.saved_h for p in found.payers] == [None]


def test_a_new_baseline_needs_no_migration(store: Store, cluster_id: int) -> None:
    """It is compared over the hand-overs that it is known of, and stands after the others."""
    hand_over(store, cluster_id, 0, late_s=5 * HOUR, leads={"mirage": 4 * HOUR})
    hand_over(store, cluster_id, 1, late_s=5 * HOUR, leads={"mirage": 4 * HOUR})
    summed(store, cluster_id)
    with store.begin() as tx:
        key = {"chain_id": "chainalice0001", "index": 2, "policy": "a-new-rule"}
        tx.execute(policy_outcomes.insert().values(**key, interruption_s=3 * HOUR, overlap_s=HOUR))
    with store.read() as tx:
        part = build_impact(tx, cluster_id, 0, START + 100 * DAY, ADMIN).shadow
    assert [one.baseline for one in part.saved] == [*FIRST, "a-new-rule"]
    new = part.saved[-1]
    assert (part.compared, new.compared, new.interruption_saved_h) == (2, 1, 2.0)
    assert (new.baseline_overlap_h, new.mirage_interruption_h, new.mirage_overlap_h) == (1, 1, 0)


def test_what_can_no_longer_be_told_is_compared_no_more(store: Store, cluster_id: int) -> None:
    """Accounting corrects a hand-over: it was hindered."""
    hand_over(store, cluster_id, 0, late_s=5 * HOUR)
    assert summed(store, cluster_id).shadow.compared == 1
    hand_over(store, cluster_id, 0, late_s=5 * HOUR, hindered="JobHeldUser")
    assert summed(store, cluster_id).shadow.compared == 0


def test_a_lead_of_the_run_before_a_requeue_does_not_count(store: Store, cluster_id: int) -> None:
    hand_over(store, cluster_id, 0, late_s=5 * HOUR, leads={"mirage": 30 * HOUR})
    assert saved(summed(store, cluster_id).shadow)["reactive"] == 0.0


def test_enough_hand_overs_have_intervals_and_counting_again_changes_nothing(
    store: Store, cluster_id: int
) -> None:
    for day in range(24):
        lead = {"mirage": (day % 4) * HOUR}
        hand_over(store, cluster_id, day, late_s=3 * HOUR, leads=lead)
    found = summed(store, cluster_id)
    assert found.too_few == ""
    against = found.shadow.saved[0]
    assert (against.baseline, against.interruption_saved_h) == ("reactive", 36.0)
    assert against.interruption_saved_h_ci is not None
    low, high = against.interruption_saved_h_ci
    assert 20 < low < 36 < high < 52
    assert summed(store, cluster_id) == found


def test_private_usage_is_ones_own(store: Store, cluster_id: int) -> None:
    for user in ("alice", "bob"):
        freed_at = START + 6 * HOUR
        how: dict[str, Any] = {"mode": Mode.ACT, "freed_at": freed_at, "user": user}
        hand_over(store, cluster_id, 0, late_s=-HOUR, **how)
    hidden = frozenset({"usage"})
    alice = Principal(uid=1001, user="alice", role=Role.USER, hidden=hidden)
    lead = Principal(
        uid=9, user="carol", role=Role.COORDINATOR, accounts=frozenset({"of-bob"}), hidden=hidden
    )
    seen = {who.user: summed(store, cluster_id, who) for who in (ADMIN, alice, lead)}
    assert {who: found.own for who, found in seen.items()} == {
        "root": False,
        "alice": True,
        "carol": True,
    }
    payers = {who: {p.user for p in found.payers} for who, found in seen.items()}
    assert payers == {"root": {"alice", "bob"}, "alice": {"alice"}, "carol": {"bob"}}
    assert seen["alice"].act.handovers == 1
    secret = replace(alice, hidden=frozenset({"partitions"}))
    found = summed(store, cluster_id, secret)
    assert (found.partitions, found.chains[0].partition) == ((), "")


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.ACT])
def test_the_worker_writes_down_what_its_hand_overs_came_to(store: Store, mode: Mode) -> None:
    """Another's job holds the one free node until two hours in: the standby waits for its own."""
    scene = Scene(store, mode=mode, policies=Always)
    for _ in range(70):
        scene.tick()
    found = summed(store, scene.cluster_id)
    part = found.act if mode is Mode.ACT else found.shadow
    assert part.handovers == part.compared >= 1
    with store.read() as tx:
        (first, *_) = chains.list_handovers(tx, scene.cluster_id)
        would = list_would_free(tx, [(CHAIN, 2)])[CHAIN, 2]
    if mode is Mode.SHADOW:
        assert first.predecessor.start is not None
        assert would["mirage"] < first.predecessor.start + 2 * 60 + HOUR
        assert first.successor.freed_at is None
    else:
        assert "mirage" not in would, "it did, and is measured"
        assert first.successor.freed_at is not None
