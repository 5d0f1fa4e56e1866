"""What a log shows by itself: nodes over time, the running limit, chains."""

import numpy as np

from mirage.history.workloads.replay import LoggedOutcomes
from mirage.lab.calibration.inferred_cluster import (
    build_node_events,
    find_hidden_chains,
    infer_node_levels,
    infer_running_limit,
)
from mirage.simulator.types import NodeEvent, Outage, SimJob
from tests.support.simulator.jobs import make_sim_job

DAY = 86400
HOUR = 3600
FOREVER = 2**40


def logged(start: list[int], end: list[int]) -> LoggedOutcomes:
    return LoggedOutcomes(
        eligible=np.full(len(start), -1),
        start=np.array(start, np.int64),
        end=np.array(end, np.int64),
        suspect=np.zeros(len(start), bool),
    )


def full_machine() -> tuple[np.ndarray, np.ndarray, np.ndarray, LoggedOutcomes]:
    """One-node jobs of three users, each submitted five hours before it may start: ten nodes
    always busy, on days 4 and 5 only six."""
    submit, start, end = [], [], []
    for hour in range(0, 10 * 24, 2):
        nodes = 6 if 4 <= hour // 24 < 6 else 10
        submit += [DAY + (hour - 5) * HOUR] * nodes
        start += [DAY + hour * HOUR] * nodes
        end += [DAY + (hour + 2) * HOUR] * nodes
    users = np.arange(len(submit)) % 3
    return np.array(submit), np.ones(len(submit), np.int64), users, logged(start, end)


def test_levels_are_what_was_busy_while_jobs_waited() -> None:
    assert infer_node_levels(*full_machine(), until=11 * DAY) == (
        (DAY, 10),
        (5 * DAY, 6),
        (7 * DAY, 10),
    )


def test_nothing_after_until_is_looked_at() -> None:
    submit, nodes, users, log = full_machine()
    early = infer_node_levels(submit, nodes, users, log, until=4 * DAY)
    later = logged(
        [int(s) if s < 4 * DAY else int(s) + 40 * HOUR for s in log.start],
        [int(e) if e <= 4 * DAY else int(e) + 90 * HOUR for e in log.end],
    )
    assert early == ((DAY, 10),)
    assert infer_node_levels(submit, nodes, users, later, until=4 * DAY) == early


def test_idle_nodes_that_nobody_waits_for_are_no_outage() -> None:
    _, nodes, users, log = full_machine()
    assert infer_node_levels(log.start, nodes, users, log, until=20 * DAY) == ()


def test_one_users_waiting_jobs_say_nothing_of_nodes() -> None:
    submit, nodes, users, log = full_machine()
    assert infer_node_levels(submit, nodes, 0 * users, log, until=20 * DAY) == ()


def test_events_drain_the_highest_nodes_and_bring_them_back() -> None:
    assert build_node_events(((5, 3), (9, 2), (12, 4)), range(4)) == (
        NodeEvent(5, 3, Outage.DRAIN),
        NodeEvent(9, 2, Outage.DRAIN),
        NodeEvent(12, 2, Outage.RESUME),
        NodeEvent(12, 3, Outage.RESUME),
    )
    assert build_node_events(((5, 99),), range(4)) == ()


def test_only_nodes_that_the_log_may_speak_of_are_drained() -> None:
    assert build_node_events(((5, 1),), (2, 7)) == (NodeEvent(5, 7, Outage.DRAIN),)


def test_an_outage_given_stays_and_is_one_of_the_missing_nodes() -> None:
    given = (NodeEvent(7, 1, Outage.DOWN), NodeEvent(9, 1, Outage.RESUME))
    assert build_node_events(((5, 3),), range(4), given) == (
        NodeEvent(5, 3, Outage.DRAIN),
        NodeEvent(7, 1, Outage.DOWN),
        NodeEvent(7, 3, Outage.RESUME),
        NodeEvent(9, 1, Outage.RESUME),
        NodeEvent(9, 3, Outage.DRAIN),
    )


def test_an_outage_given_for_later_than_was_looked_at_comes_on_top() -> None:
    given = (NodeEvent(20, 1, Outage.DOWN), NodeEvent(30, 1, Outage.RESUME))
    drained = NodeEvent(5, 3, Outage.DRAIN)
    assert build_node_events(((5, 3),), range(4), given, until=20) == (drained, *given)


def test_a_drained_node_that_goes_down_comes_back_drained() -> None:
    given = (NodeEvent(7, 3, Outage.DOWN), NodeEvent(9, 3, Outage.RESUME))
    assert build_node_events(((5, 3),), range(4), given) == (
        NodeEvent(5, 3, Outage.DRAIN),
        NodeEvent(7, 3, Outage.DOWN),
        NodeEvent(9, 3, Outage.DRAIN),
    )


def test_a_limit_is_what_several_users_reach_and_nobody_exceeds() -> None:
    start = [0, 0, 10, 0, 5, 0, 1, 0]
    end = [10, 20, 20, 9, 9, 8, 8, 3]
    users = np.array([0, 0, 0, 1, 1, 2, 2, 3])
    # User 0's third job starts in the very second in which the first ends: two at a time.
    assert infer_running_limit(users, logged(start, end), FOREVER) == 2
    assert infer_running_limit(users[:5], logged(start[:5], end[:5]), FOREVER) == 0
    assert infer_running_limit(users, logged([*start[:2], 9, *start[3:]], end), FOREVER) == 0
    assert infer_running_limit(users, logged(start, end), until=1) == 0


def make_named_job(number: int, submit: int, name: str, nodes: int = 1) -> SimJob:
    return make_sim_job(number, submit=submit, limit_s=9, user="a", name=name, nodes=nodes)


def test_chains_are_jobs_of_one_stem_that_start_when_the_one_before_ends() -> None:
    jobs = [make_named_job(i, i, f"step.{i}") for i in range(1, 5)]
    log = logged([1, 3600, 7230, 10800], [3600, 7200, 10800, 14400])
    found = find_hidden_chains(jobs, log, FOREVER)
    assert (found.chains, found.jobs) == (1, 3)
    assert found.wait_h * 3600 == 3600 - 2 + 7230 - 3 + 10800 - 4
    assert find_hidden_chains(jobs, log, until=10000).chains == 0
    other = [make_named_job(i, i, f"step.{i}", nodes=i) for i in range(1, 5)]
    assert find_hidden_chains(other, log, FOREVER).chains == 0
    loose = logged([1, 3661, 7330, 10900], [3600, 7200, 10800, 14400])
    assert find_hidden_chains(jobs, loose, FOREVER).chains == 0
