"""What became of the jobs of the last weeks, from a simulator's events and from accounting."""

from dataclasses import replace
from functools import partial

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob
from mirage.twin.futures.submission_history import KEPT_S, NONE, SubmissionHistory
from tests.support.jobs import make_job
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, generate_jobs
from tests.support.simulator.jobs import make_sim_job

LIMIT_S = 4 * HOUR


job = partial(make_sim_job, limit_s=LIMIT_S, user="ann")


def test_submissions_of_a_span_have_their_fates() -> None:
    history = SubmissionHistory(BEGIN)
    for job_id in (1, 2, 3):
        history.record_submit(BEGIN + job_id, job_id, job())
    history.record_start(BEGIN + 10, 1)
    history.record_end(BEGIN + 20, 1)
    history.record_end(BEGIN + 30, 2)
    found = history.list_submissions(BEGIN + 1, BEGIN + 3)
    assert found.at.tolist() == [BEGIN + 2, BEGIN + 3]
    assert found.start.tolist() == [NONE, NONE]
    assert found.end.tolist() == [BEGIN + 30, NONE]
    assert history.list_submissions(BEGIN, BEGIN + 1).start.tolist() == [BEGIN + 10]


def test_jobs_asked_for_alike_are_of_one_kind() -> None:
    history = SubmissionHistory(BEGIN)
    for i, user in enumerate(("ann", "bob", "ann")):
        history.record_submit(BEGIN + i, i, job(user=user))
    kinds = history.list_submissions(BEGIN - 1, BEGIN + 9).kind.tolist()
    assert kinds[0] == kinds[2] != kinds[1]
    assert [kind.user for kind in history.kinds.jobs] == ["ann", "bob"]


def test_a_requeued_job_has_not_started() -> None:
    jobs = [SimJob(job_id=1, submit=BEGIN, nodes=1, time_limit_s=LIMIT_S, run_s=LIMIT_S)]
    simulator, history = Simulator(PARAMS, jobs, now=BEGIN - 1), SubmissionHistory(BEGIN - 1)
    history.record_events(simulator.advance(BEGIN + 60), {1: jobs[0]}.get)
    assert history.list_submissions(0, BEGIN).start.tolist() == [BEGIN]
    simulator.requeue(1)
    history.record_events(simulator.advance(BEGIN + 61), {1: jobs[0]}.get)
    assert history.list_submissions(0, BEGIN).start.tolist() == [NONE]


def test_what_is_old_is_forgotten_and_what_is_under_way_is_not() -> None:
    history = SubmissionHistory(BEGIN)
    for i in range(500):
        at = BEGIN + i * HOUR * 6
        history.record_submit(at, i, job())
        if i >= 300:
            history.record_end(at + 1, i)
    assert len(history.list_submissions(0, BEGIN + KEPT_S * 9).at) == 500, "the first has not ended"
    for i in range(300):
        history.record_end(BEGIN + 500 * HOUR * 6, i)
    for i in range(500, 1500):
        history.record_submit(BEGIN + i * HOUR * 6, i, job())
        history.record_end(BEGIN + i * HOUR * 6 + 1, i)
    now = BEGIN + 1499 * HOUR * 6
    assert len(history.list_submissions(now - KEPT_S, now).at) == KEPT_S // (6 * HOUR)
    assert len(history.list_submissions(0, now).at) < 1000


def test_a_fork_hears_by_itself() -> None:
    history = SubmissionHistory(BEGIN)
    history.record_submit(BEGIN + 1, 1, job())
    twin = history.fork()
    twin.record_end(BEGIN + 2, 1)
    twin.record_submit(BEGIN + 3, 2, job())
    assert history.list_submissions(0, BEGIN + 9).end.tolist() == [NONE]
    assert twin.list_submissions(0, BEGIN + 9).end.tolist() == [BEGIN + 2, NONE]


def test_accounting_tells_what_events_tell() -> None:
    jobs, now = generate_jobs(3), BEGIN + 30 * HOUR
    simulator = Simulator(PARAMS, jobs, now=BEGIN - 1)
    heard = SubmissionHistory(BEGIN - 1)
    heard.record_events(simulator.advance(now), {j.job_id: j for j in jobs}.get)
    told = SubmissionHistory.from_accounting(PARAMS, _accounting(simulator), BEGIN - 1, now)
    for name in ("at", "start", "end"):
        columns = (getattr(h.list_submissions(BEGIN - 1, now), name) for h in (heard, told))
        first, second = (sorted(column.tolist()) for column in columns)
        assert first == second
    first_shares, second_shares = heard.run_times.build_shares(), told.run_times.build_shares()
    assert first_shares.all.tolist() == second_shares.all.tolist()
    assert sorted(first_shares.own.tolist()) == sorted(second_shares.own.tolist())


def _accounting(simulator: Simulator) -> list[Job]:
    """Every job, those to come too, with what only the end will tell."""
    whole = simulator.fork(with_results=True)
    whole.run_out()
    return [
        Job(
            job_id=JobId(job.job_id),
            submit=job.submit,
            state=whole.get_job_state(row),
            user=job.user,
            nodes=job.nodes,
            time_limit_s=job.time_limit_s,
            start=None if whole.start[row] < 0 else int(whole.start[row]),
            end=int(whole.end[row]),
        )
        for row, job in enumerate(whole.workload.jobs)
    ]


def test_cancelled_with_a_start_that_is_the_end_never_ran() -> None:
    row = make_job(
        1,
        submit=BEGIN,
        state=JobState.CANCELLED,
        start=BEGIN + 60,
        end=BEGIN + 60,
        time_limit_s=HOUR,
    )
    history = SubmissionHistory.from_accounting(PARAMS, [row], BEGIN - 1, BEGIN + HOUR)
    assert history.list_submissions(0, BEGIN + HOUR).start.tolist() == [NONE]
    assert history.list_submissions(0, BEGIN + HOUR).end.tolist() == [BEGIN + 60]


@pytest.mark.parametrize("gap_s", [0, 1])
def test_a_requeued_job_was_submitted_once_and_only_its_last_run_is_over(gap_s: int) -> None:
    again, end = BEGIN + 660 + gap_s, BEGIN + 2 * HOUR + LIMIT_S
    first = Job(
        job_id=JobId(7),
        submit=BEGIN,
        start=BEGIN + 60,
        end=BEGIN + 660,
        state=JobState.REQUEUED,
        user="ann",
        nodes=1,
        time_limit_s=LIMIT_S,
    )
    second = replace(first, submit=again, start=BEGIN + 2 * HOUR, end=end, state=JobState.TIMEOUT)
    history = SubmissionHistory.from_accounting(PARAMS, [second, first], BEGIN - 1, BEGIN + HOUR)
    waiting = history.list_submissions(0, BEGIN + HOUR)
    assert (waiting.start.tolist(), waiting.end.tolist()) == ([NONE], [NONE])
    assert not history.run_times.build_shares().all_counts.any()
    over = SubmissionHistory.from_accounting(PARAMS, [second, first], BEGIN - 1, end)
    found = over.list_submissions(0, end)
    assert (found.at.tolist(), found.start.tolist()) == ([BEGIN], [BEGIN + 2 * HOUR])
    assert found.end.tolist() == [end]
    assert over.run_times.build_shares().all_counts.sum() == 1
