"""A twin of a real cluster: what it is told, and what it makes of that."""

import pytest

from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Partition
from tests.support.simulator.scenes import T0, job_at, site
from tests.support.simulator.views import list_pending_ids

_FAIR = {
    "priority_weight_fairshare": 1000,
    "priority_weight_age": 0,
    "priority_calc_period_s": 300,
    "priority_decay_half_life_s": 86400,
    "shares": (("lab", 1),),
}
_ALICE, _BOB = ("lab", "alice"), ("lab", "bob")


def _stood(usage: dict[tuple[str, str], float] | None, ticked_at: int | None = None) -> Simulator:
    """Alice has three of four nodes, and waits with bob for all four; his job came later."""
    params = site(partitions=(Partition(),), **_FAIR)
    running = job_at(1, nodes=3, limit=2000, user="alice", account="lab")
    waiting = [
        job_at(number, nodes=4, user=user, account="lab", priority=500)
        for number, user in ((2, "alice"), (3, "bob"))
    ]
    return Simulator.from_queue(
        params,
        now=T0,
        running=[(running, T0 - 100, (0, 1, 2))],
        pending=[(one, T0 - 50) for one in waiting],
        usage=usage,
        ticked_at=ticked_at,
    )


def _first(twin: Simulator, until: int) -> int:
    """Who is ahead in the queue once `until` is over."""
    twin.advance(T0 + until)
    return list_pending_ids(twin)[0]


@pytest.mark.parametrize(("bob_s", "ahead"), [(10_000.0, 3), (13_000.0, 2)])
def test_who_had_used_less_is_ahead_at_the_next_tick(bob_s: float, ahead: int) -> None:
    # Alice's 12 CPUs add 12 * 300 to her 7,000 until that tick: 10,600.
    twin = _stood({_ALICE: 7_000.0, _BOB: bob_s})
    assert _first(twin, 299) == 2
    assert _first(twin, 301) == ahead


@pytest.mark.parametrize(("ticked_at", "ahead"), [(T0, 2), (T0 - 100, 3)])
def test_what_ran_since_the_last_tick_is_counted_at_the_next(ticked_at: int, ahead: int) -> None:
    # At the tick at T0 + 200, her job has run for 300 s since the last one; at T0 + 300 too.
    twin = _stood({_ALICE: 0.0, _BOB: 3_000.0}, ticked_at)
    assert _first(twin, 200) == ahead


def test_the_beat_of_the_ticks_is_kept() -> None:
    twin = _stood({_ALICE: 0.0, _BOB: 1.0}, T0 - 290)
    assert _first(twin, 9) == 2
    assert _first(twin, 10) == 3


def test_without_usage_all_keep_the_fair_share_that_is_in_their_priorities() -> None:
    assert _first(_stood(None), 1000) == 2


def test_users_without_jobs_count_in_what_a_rank_is_worth() -> None:
    # 1000 points over three users, two of them ahead of her.
    twin = _stood({_ALICE: 9.0, _BOB: 2.0, ("lab", "carol"): 1.0})
    fresh = twin.inject(job_at(0, nodes=4, user="alice", account="lab"))
    record = twin.find(fresh)
    assert record is not None
    assert record.priority == 333
