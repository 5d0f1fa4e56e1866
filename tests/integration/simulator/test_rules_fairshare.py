"""Fair share, printed priorities and limits of a partition, each by hand.

docs/reference/simulator.md, section 3, has the rules.
"""

import pytest

from mirage.simulator.types import Partition, Qos
from tests.support.simulator.scenes import Scene, job_at, site

# Fair share

FAIR = {
    "priority_weight_fairshare": 1000,
    "priority_weight_age": 0,
    "priority_calc_period_s": 300,
    "priority_decay_half_life_s": 86400,
}


def test_who_has_used_more_is_behind_from_the_next_tick_on() -> None:
    used = job_at(99, nodes=4, limit=1000, user="u")
    scene = Scene(site(**FAIR), used, job_at(1, 5, user="u"), job_at(2, 6, user="v"))
    assert scene.until(299).order() == [1, 2]
    assert scene.until(300).order() == [2, 1]


def test_a_tick_that_changes_the_order_makes_the_passes_due() -> None:
    depth = site(**FAIR, default_queue_depth=1, sched_interval_s=3600, bf_interval_s=3600)
    jobs = [
        job_at(99, nodes=3, limit=3000, user="u"),
        job_at(1, 5, nodes=4, user="u"),
        job_at(2, 6, user="v"),
    ]
    assert Scene(depth, *jobs).starts() == {99: 0, 1: 3000, 2: 300}


def test_accounts_come_before_users_and_have_shares() -> None:
    # a's level is 3 shares / 2 nodes, b's 1 / 1: a is ahead, though its user has used more.
    jobs = [
        job_at(98, nodes=2, limit=1000, user="u", account="a"),
        job_at(99, nodes=1, limit=1000, user="v", account="b"),
        job_at(97, nodes=1, limit=1000, user="w", account="c"),
        job_at(1, 5, user="v", account="b"),
        job_at(2, 6, user="u", account="a"),
    ]
    shares = (("a", 3), ("c", 1))
    assert Scene(site(**FAIR, shares=shares), *jobs).until(300).order() == [2, 1]
    assert Scene(site(**FAIR), *jobs).until(300).order() == [1, 2]


def test_usage_is_forgotten_by_half_lives() -> None:
    # u used 4 nodes for 100 s early, v 1 node for 300 s lately: with a short half-life v is behind.
    jobs = [
        job_at(98, nodes=4, limit=100, user="u"),
        job_at(99, 900, nodes=4, limit=2000, user="w"),
        job_at(97, 600, nodes=1, limit=300, user="v"),
        job_at(1, 950, user="v"),
        job_at(2, 960, user="u"),
    ]
    short = {**FAIR, "priority_decay_half_life_s": 300}
    assert Scene(site(**FAIR), *jobs).until(1200).order() == [1, 2]
    assert Scene(site(**short), *jobs).until(1200).order() == [2, 1]


def test_who_has_only_refused_jobs_is_not_in_the_fair_tree() -> None:
    used = job_at(99, nodes=4, limit=1000, user="u")
    refused = job_at(98, 1, nodes=5, user="nobody")
    scene = Scene(site(**FAIR), used, refused, job_at(1, 5, user="u"), job_at(2, 6, user="v"))
    # Two users share the weight: one is ahead of u.
    assert scene.until(300).priority(1) == 500


@pytest.mark.parametrize("late", [6_000, 600_000])
def test_what_was_used_long_ago_is_forgotten_while_nothing_runs(late: int) -> None:
    # u used 4 nodes for 250 s, 20 or 2,000 half-lives before v uses 1 node for 300 s, and w 3.
    jobs = [
        job_at(98, nodes=4, limit=250, user="u"),
        job_at(97, late, nodes=1, limit=900, user="v"),
        job_at(99, late, nodes=3, limit=900, user="w"),
        job_at(1, late + 5, nodes=4, user="w"),
        job_at(2, late + 6, nodes=4, user="v"),
        job_at(3, late + 7, nodes=4, user="u"),
    ]
    short = {**FAIR, "priority_decay_half_life_s": 300}
    assert Scene(site(**short), *jobs).until(late + 301).order() == [3, 2, 1]


def test_the_largest_weight_ranks_as_any_other() -> None:
    users = [job_at(n, n, user=f"u{n}", nodes=4) for n in range(1, 301)]
    most = {**FAIR, "priority_weight_fairshare": 2**32 - 1}
    scene = Scene(site(**most), job_at(999, nodes=4, limit=10_000, user="u1"), *users)
    assert scene.until(600).order() == [*range(2, 301), 1]


# What squeue would print


def test_the_printed_priority() -> None:
    # A day of seven at 7000, and 100 for size: one node of four. Fair share 1000 before a tick.
    params = site(
        priority_weight_job_size=100,
        priority_weight_fairshare=1000,
        priority_calc_period_s=10**9,
        priority_max_age_s=7 * 86400,
    )
    jobs = [
        job_at(9, nodes=4, limit=10**6),
        job_at(1, 5),
        job_at(2, held=True),
        job_at(3, begin=10**6),
    ]
    scene = Scene(params, *jobs).until(86405)
    shown = {i: scene.priority(i) for i in (1, 2, 3, 9)}
    # The rate is rounded down, so a day falls short of 1000 by less than one point.
    assert shown == {1: 1000 + 25 + 1000 - 1, 2: 0, 3: 1, 9: 0}


# MaxTime of a partition, and the QOS that it does not bind


def test_a_qos_with_partition_time_limit_is_not_bound_by_max_time() -> None:
    qos = (Qos(name="normal"), Qos(name="long", overrides_max_time=True))
    params = site(qos=qos, partitions=(Partition(max_time_s=600),))
    jobs = [
        job_at(1),
        job_at(2, limit=601),
        job_at(3, limit=601, qos="long"),
        job_at(4, limit=601, qos="none"),
    ]
    assert Scene(params, *jobs).starts() == {1: 0, 2: None, 3: 0, 4: None}
