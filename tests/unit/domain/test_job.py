"""Job states and what they mean."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import Job, JobId, JobState
from tests.support.jobs import make_job

STATES = st.sampled_from(JobState)


@given(STATES)
def test_a_state_is_at_most_one_of_waiting_running_and_ended(state: JobState) -> None:
    assert state.is_waiting + state.is_running + state.has_ended == (state is not JobState.UNKNOWN)


@given(STATES)
def test_a_state_reads_back_from_slurms_word(state: JobState) -> None:
    assert JobState(str(state)) is state


def test_nothing_is_concluded_from_an_unknown_state() -> None:
    unknown = JobState.UNKNOWN
    assert (unknown.is_waiting, unknown.is_running, unknown.has_ended) == (False,) * 3


def test_requeued_is_accountings_word_for_a_run_that_ended() -> None:
    assert JobState.REQUEUED.has_ended
    assert JobState.REQUEUE_HOLD.is_waiting
    assert JobState.SPECIAL_EXIT.is_waiting


def test_a_completing_or_suspended_job_still_holds_its_nodes() -> None:
    assert JobState.COMPLETING.is_running
    assert JobState.SUSPENDED.is_running


def test_a_job_says_nothing_it_was_not_told() -> None:
    job = Job(job_id=JobId(1), submit=1000, state=JobState.PENDING)
    unknown = (job.uid, job.priority, job.eligible, job.start, job.end, job.time_limit_s)
    assert unknown == (None,) * 6


def make_ended_job(state: JobState, start: int | None) -> Job:
    return make_job(state=state, submit=100, eligible=160, start=start, end=460)


def test_a_wait_begins_when_the_job_may_start_and_is_none_of_one_that_never_ran() -> None:
    assert make_ended_job(JobState.COMPLETED, 400).wait_s == 240
    assert make_ended_job(JobState.FAILED, 460).wait_s == 300, (
        "in its first second it failed, and ran"
    )
    assert make_ended_job(JobState.CANCELLED, 460).wait_s is None
    assert make_ended_job(JobState.CANCELLED, None).wait_s is None


def told(state: JobState, start: int | None = 400, end: int | None = 460) -> Job:
    """As Slurm tells of every job: one start and one end."""
    return make_job(state=state, submit=100, start=start, end=end)


def instants(job: Job) -> tuple[int | None, ...]:
    return job.start, job.end, job.planned_start, job.expected_end, job.cancelled_at


@given(STATES, st.none() | st.just(400), st.none() | st.sampled_from([400, 460]))
def test_an_instant_has_one_meaning(state: JobState, start: int | None, end: int | None) -> None:
    job = told(state, start, end)
    assert not (job.start is not None and state.is_waiting)
    assert job.planned_start is None or state.is_waiting
    assert job.expected_end is None or state.is_running
    assert job.cancelled_at is None or (job.start, job.end) == (None, job.cancelled_at)
    assert job.has_never_run is (job.cancelled_at is not None)
    assert replace(job, name="again") == replace(told(state, start, end), name="again")


def test_a_start_of_one_that_waits_is_a_plan() -> None:
    assert instants(told(JobState.PENDING)) == (None, None, 400, None, None)
    assert instants(told(JobState.REQUEUE_HOLD, end=None)) == (None, None, 400, None, None)


def test_an_end_of_one_that_runs_is_expected() -> None:
    assert instants(told(JobState.RUNNING)) == (400, None, None, 460, None)
    assert instants(told(JobState.SUSPENDED)) == (400, None, None, 460, None)
    assert instants(told(JobState.COMPLETING)) == (400, 460, None, None, None), "its work is over"


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.DEADLINE, JobState.REVOKED])
def test_one_that_was_cancelled_at_its_start_never_ran(state: JobState) -> None:
    never = (None, 460, None, None, 460)
    assert instants(told(state, start=460)) == instants(told(state, start=None)) == never
    assert instants(told(state, start=400)) == (400, 460, None, None, None)


def test_one_that_failed_in_its_first_second_ran() -> None:
    assert instants(told(JobState.FAILED, start=460)) == (460, 460, None, None, None)


def test_one_that_completed_ran_whenever_that_began() -> None:
    assert instants(told(JobState.COMPLETED, start=None)) == (None, 460, None, None, None)


def test_a_job_that_was_cancelled_while_it_waited_has_no_wait() -> None:
    """The first disagreement of house.md 4."""
    job = make_job(submit=100, start=5000, end=5000, state=JobState.CANCELLED)
    assert (job.start, job.cancelled_at, job.wait_s) == (None, 5000, None)


def test_a_wait_counts_from_the_later_of_submission_and_eligibility() -> None:
    """The second one: Slurm gives a requeued job a new submission."""
    job = Job(job_id=JobId(1), submit=1000, eligible=400, start=1500, state=JobState.RUNNING)
    assert job.wait_s == 500
