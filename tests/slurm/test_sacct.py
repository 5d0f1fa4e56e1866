"""Accounting records, as a real sacct told them."""

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.slurm import sacct
from tests.slurm.captured import SEPARATOR, answer, job_id, taken_at

_FIELDS = sacct.fields(answer("sacct-helpformat.txt"))


@pytest.fixture(scope="module")
def by_id() -> list[Job]:
    return sacct.parse(answer("sacct-jobs.txt"), _FIELDS, SEPARATOR)


@pytest.fixture(scope="module")
def window() -> list[Job]:
    return sacct.parse(answer("sacct-window.txt"), _FIELDS, SEPARATOR)


def _runs(jobs: list[Job], fate: str) -> list[Job]:
    return sorted((j for j in jobs if j.job_id == job_id(fate)), key=lambda j: j.submit)


def test_the_field_is_reserved_in_22_05_and_planned_later() -> None:
    assert "Reserved" in _FIELDS
    assert "Planned" not in _FIELDS
    later = sacct.fields(answer("sacct-helpformat.txt").replace("Reserved ", "Planned  "))
    assert "Planned" in later
    assert "Reserved" not in later


def test_fields_that_a_sacct_does_not_have_are_not_asked_for() -> None:
    assert sacct.fields("State JobIDRaw Submit Account") == (
        "JobIDRaw",
        "Account",
        "State",
        "Submit",
    )


def test_a_sacct_without_ids_or_states_is_of_no_use() -> None:
    with pytest.raises(MalformedText, match="does not list JobIDRaw, State"):
        sacct.fields("Submit Account")


def test_a_completed_job_is_told_in_full(window: list[Job]) -> None:
    (job,) = _runs(window, "completed")
    assert job.state is JobState.COMPLETED
    assert (job.user, job.uid, job.account, job.qos) == ("alice", 1001, "research", "normal")
    assert (job.partition, job.name, job.comment) == ("gpu", "resnet", "mirage:c0:0")
    assert (job.nodes, job.cpus, job.gpus, job.node_list) == (1, 2, 1, "gpu01")
    assert (job.time_limit_s, job.exit_code, job.reason) == (1800, "0:0", "")
    assert job.eligible is not None
    assert job.start is not None
    assert job.end is not None
    assert job.submit <= job.eligible <= job.start < job.end <= taken_at()
    assert job.submit_line.startswith("sbatch --parsable")


@pytest.mark.parametrize(
    ("fate", "state", "exit_code"),
    [
        ("cancelled", JobState.CANCELLED, "0:0"),
        ("cancelled-by-root", JobState.CANCELLED, "0:0"),
        ("failed", JobState.FAILED, "7:0"),
        ("launch-failed", JobState.FAILED, "0:53"),
        ("signaled", JobState.FAILED, "0:9"),
        ("timeout", JobState.TIMEOUT, "0:0"),
        ("node-failed", JobState.NODE_FAIL, "0:0"),
        ("deadline", JobState.DEADLINE, "1:0"),
    ],
)
def test_each_fate_has_its_state(
    window: list[Job], fate: str, state: JobState, exit_code: str
) -> None:
    (job,) = _runs(window, fate)
    assert (job.state, job.exit_code) == (state, exit_code)
    assert job.end is not None


def test_a_requeued_job_has_a_record_for_each_run(window: list[Job]) -> None:
    first, second = _runs(window, "requeued")
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.COMPLETED)
    assert first.end is not None
    assert first.end <= second.submit


def test_a_node_failure_with_requeue_has_both_runs(window: list[Job]) -> None:
    states = [job.state for job in _runs(window, "node-failed-requeued")]
    assert states == [JobState.NODE_FAIL, JobState.RUNNING]


_NEVER_ELIGIBLE = ["cancelled-held", "cancelled-dependent", "successor", "held", "never"]


@pytest.mark.parametrize("fate", _NEVER_ELIGIBLE)
def test_a_window_leaves_out_jobs_never_eligible_and_ids_do_not(
    window: list[Job], by_id: list[Job], fate: str
) -> None:
    assert _runs(window, fate) == []
    (job,) = _runs(by_id, fate)
    assert (job.eligible, job.start) == (None, None)


def test_a_job_cancelled_by_somebody_is_cancelled(by_id: list[Job]) -> None:
    (job,) = _runs(by_id, "cancelled-dependent")
    assert job.state is JobState.CANCELLED
    assert job.end is not None


def test_unlimited_and_the_partitions_own_limit(by_id: list[Job]) -> None:
    assert _runs(by_id, "unlimited")[0].time_limit_s == UNLIMITED
    assert _runs(by_id, "no-limit-pending")[0].time_limit_s is None
    assert _runs(by_id, "no-limit-debug")[0].time_limit_s == 1800


def test_a_het_job_is_one_record_with_all_resources(window: list[Job]) -> None:
    (job,) = _runs(window, "het")
    assert (job.nodes, job.cpus, job.gpus) == (2, 6, 3)


def test_only_pending_arrays_are_marked(by_id: list[Job]) -> None:
    marked = {job.job_id for job in by_id if job.array}
    assert marked == {job_id("array-pending"), job_id("array-running")}


def test_a_users_text_breaks_nothing(window: list[Job]) -> None:
    (newline,) = _runs(window, "hostile-newline")
    assert newline.comment == "first line\nsecond | line\n"
    assert newline.submit_line.endswith("# two lines")
    (separator,) = _runs(window, "hostile-separator")
    assert separator.name == "with\x1fseparator\x1e and\ttab"


@pytest.mark.parametrize("lost", [1, 3, 50, 500])
def test_an_answer_cut_short_is_refused(lost: int) -> None:
    with pytest.raises(MalformedText):
        sacct.parse(answer("sacct-window.txt")[:-lost], _FIELDS, SEPARATOR)


def test_an_empty_answer_lacks_even_the_header() -> None:
    with pytest.raises(MalformedText, match="without its header"):
        sacct.parse("", _FIELDS, SEPARATOR)


_HEADER = ("JobIDRaw", "JobID", "Submit", "State", "Eligible", "Start", "Planned")


def _records(*rows: str) -> list[Job]:
    header = "".join(f"{name}|" for name in _HEADER)
    return sacct.parse("\n".join([header, *rows, ""]), _HEADER, "|")


def test_a_header_alone_is_no_jobs() -> None:
    assert _records() == []


def test_absent_fields_are_not_known() -> None:
    (job,) = _records("7|7|100|COMPLETED|100|200|00:01:40|")
    assert job == Job(
        job_id=JobId(7),
        submit=100,
        state=JobState.COMPLETED,
        eligible=100,
        start=200,
    )


def test_the_planned_time_tells_when_it_became_eligible_where_nothing_else_does() -> None:
    (job,) = _records("7|7|100|COMPLETED|Unknown|200|00:01:40|")
    assert job.eligible == 100


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("CANCELLED by 1001", JobState.CANCELLED),
        ("CANCELLED+", JobState.CANCELLED),
        ("HIBERNATING", JobState.UNKNOWN),
    ],
)
def test_states_with_a_tail_and_states_of_later_releases(word: str, state: JobState) -> None:
    (job,) = _records(f"7|7|100|{word}|Unknown|Unknown||")
    assert (job.state, job.start) == (state, None)


def test_a_record_listed_twice_counts_once_as_last_told() -> None:
    jobs = _records(
        "7|7|100|RUNNING|100|200||", "8|8|100|RUNNING|100|200||", "7|7|100|COMPLETED|100|200||"
    )
    assert [(job.job_id, job.state) for job in jobs] == [
        (7, JobState.COMPLETED),
        (8, JobState.RUNNING),
    ]


def test_a_number_used_again_is_another_job() -> None:
    jobs = _records("7|7|100|COMPLETED|100|200||", "7|7|900|RUNNING|900|901||")
    assert [job.submit for job in jobs] == [100, 900]


def test_windows_and_ids_are_asked_for_by_epochs_and_numbers() -> None:
    argv = sacct.window_argv(_FIELDS, 100, 200, "|")
    assert {"--starttime=uts100", "--endtime=uts200", "--duplicates", "--allocations"} <= set(argv)
    assert "--jobs=3,4" in sacct.jobs_argv(_FIELDS, [JobId(3), JobId(4)], "|")
