"""Job states and what they mean."""

from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import Job, JobId, JobState

STATES = st.sampled_from(JobState)


@given(STATES)
def test_a_state_is_at_most_one_of_waiting_running_and_ended(state: JobState) -> None:
    assert state.waiting + state.running + state.ended == (state is not JobState.UNKNOWN)


@given(STATES)
def test_a_state_reads_back_from_slurms_word(state: JobState) -> None:
    assert JobState(str(state)) is state


def test_nothing_is_concluded_from_an_unknown_state() -> None:
    unknown = JobState.UNKNOWN
    assert (unknown.waiting, unknown.running, unknown.ended) == (False,) * 3


def test_requeued_is_accountings_word_for_a_run_that_ended() -> None:
    assert JobState.REQUEUED.ended
    assert JobState.REQUEUE_HOLD.waiting
    assert JobState.SPECIAL_EXIT.waiting


def test_a_completing_or_suspended_job_still_holds_its_nodes() -> None:
    assert JobState.COMPLETING.running
    assert JobState.SUSPENDED.running


def test_a_job_says_nothing_it_was_not_told() -> None:
    job = Job(job_id=JobId(1), submit=1000, state=JobState.PENDING)
    unknown = (job.uid, job.priority, job.eligible, job.start, job.end, job.time_limit_s)
    assert unknown == (None,) * 6


def ended(state: JobState, start: int | None) -> Job:
    return Job(job_id=JobId(1), submit=100, eligible=160, start=start, end=460, state=state)


def test_a_wait_begins_when_the_job_may_start_and_is_none_of_one_that_never_ran() -> None:
    assert ended(JobState.COMPLETED, 400).waited_s == 240
    assert ended(JobState.FAILED, 460).waited_s == 300, "in its first second it failed, and ran"
    assert ended(JobState.CANCELLED, 460).waited_s is None
    assert ended(JobState.CANCELLED, None).waited_s is None
