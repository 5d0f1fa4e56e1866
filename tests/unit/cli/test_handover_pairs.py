"""Which hand-overs a shadow report asks about."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.errors import InputError
from mirage.lab.shadow_report.handover_pairs import OWN, ReportOptions, choose_pairs, compute_window
from mirage.reports.stored_report import HEAVIEST
from mirage.simulator.types import Partition, SimJob
from tests.support.episodes import small
from tests.support.episodes.tables import DAY_S, HOUR_S, MONDAY
from tests.support.simulator.jobs import make_sim_job

DAYS = 40


def asked(**fields: Any) -> ReportOptions:
    given: dict[str, Any] = {"since": "28d", "until": None, "every": "4h", "partitions": ()}
    return ReportOptions(**(given | {"nodes": (), "time_limit": None} | fields))


def make_daily_job(day: int, **fields: Any) -> SimJob:
    given: dict[str, Any] = {"nodes": 2, "run_s": 20 * HOUR_S, "limit_s": 24 * HOUR_S}
    return make_sim_job(day + 1, submit=MONDAY + day * DAY_S, **(given | fields))


def trace(**fields: Any) -> list[SimJob]:
    return [make_daily_job(day, **fields) for day in range(DAYS + 1)]


def test_the_window_is_before_two_limits_before_the_end() -> None:
    found = compute_window(trace(), asked(), 24 * HOUR_S)
    assert found.until == MONDAY + (DAYS - 2) * DAY_S
    assert found.since == found.until - 28 * DAY_S
    assert found.days == 28


def test_the_first_six_days_of_a_log_give_none() -> None:
    assert compute_window(trace(), asked(since="90d")).since == MONDAY + 6 * DAY_S
    assert compute_window(trace(), asked(since="2023-11-01")).since == MONDAY + 6 * DAY_S
    assert compute_window(trace(), asked(since="2023-12-01")).since == MONDAY + 11 * DAY_S


def test_until_a_day() -> None:
    found = compute_window(trace(), asked(until="2023-12-11"))
    assert (found.until, found.since) == (MONDAY + 21 * DAY_S, MONDAY + 6 * DAY_S)


def test_only_the_window_says_what_is_typical() -> None:
    jobs = [replace(j, nodes=4) if j.submit < MONDAY + 9 * DAY_S else j for j in trace()]
    (pair,) = choose_pairs(jobs, small.params(), asked())
    assert (pair.settings.nodes, pair.settings.time_limit_s) == (2, 24 * HOUR_S)
    assert pair.user_class == OWN
    assert pair.reason == "the partition's most used long jobs: 100% of its node-hours"


def test_options_go_before_the_trace() -> None:
    found = choose_pairs(trace(), small.params(), asked(nodes=(3, 1, 3), time_limit="12:00:00"))
    assert [p.settings.nodes for p in found] == [3, 1]
    assert {(p.settings.time_limit_s, p.reason) for p in found} == {(12 * HOUR_S, "as asked")}


def test_where_fair_share_weighs_the_heaviest_user_is_a_class_without_a_name() -> None:
    jobs = trace(user="secret", account="hidden")
    weighing = small.params(priority_weight_fairshare=1000)
    own, heaviest = choose_pairs(jobs, weighing, asked())
    assert (own.user_class, own.settings.user) == (OWN, "")
    assert heaviest.user_class == HEAVIEST
    assert (heaviest.settings.user, heaviest.settings.account) == ("secret", "hidden")
    assert heaviest.name == "batch: 2 nodes, 1-00:00:00, heaviest user"
    assert len(choose_pairs(trace(), weighing, asked())) == 1, "a log without users"


def test_a_partition_that_nobody_used_needs_a_size() -> None:
    params = small.params(partitions=(Partition(name="a"), Partition(name="b")))
    jobs = trace(partition="a")
    with pytest.raises(InputError, match=r"no job ran in b, .* give --nodes and --time-limit"):
        choose_pairs(jobs, params, asked(partitions=("b",)))
    found = choose_pairs(jobs, params, asked(partitions=("b",), nodes=(1,), time_limit="1:00:00"))
    assert [p.settings.partition for p in found] == ["b"]
