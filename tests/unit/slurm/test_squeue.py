"""The queue, as a real squeue told it."""

from dataclasses import dataclass

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import ForgedAnswer, MalformedText
from mirage.slurm.commands import squeue
from mirage.slurm.text import delimited_rows
from mirage.slurm.text.holds import HoldState
from mirage.slurm.text.unread_rows import Unread
from tests.support.slurm.captured import SEPARATOR, Captures


@dataclass(frozen=True)
class Told:
    queue: Queue
    by: Captures


@pytest.fixture(scope="module")
def told(captures: Captures) -> Told:
    answer = captures.answer("squeue.txt")
    return Told(squeue.parse_queue(answer, captures.taken_at(), SEPARATOR), captures)


def _find_job_by_fate(told: Told, fate: str) -> Job:
    job = told.queue.find_job(told.by.job_id(fate))
    assert job is not None, fate
    return job


def test_a_running_job_is_told_in_full(told: Told) -> None:
    job = _find_job_by_fate(told, "running")
    assert job.state is JobState.RUNNING
    assert (job.user, job.uid, job.account, job.qos) == (
        "alice",
        told.by.uid("alice"),
        "research",
        "normal",
    )
    assert (job.partition, job.name, job.comment) == ("gpu", "llm", "mirage:c1:0")
    assert (job.nodes, job.cpus, job.gpus) == (2, 16, 8)
    assert job.time_limit_s == 86400
    assert job.start is not None
    assert job.eligible is not None
    assert job.submit <= job.eligible <= job.start <= told.by.taken_at()
    assert (job.end, job.expected_end) == (None, job.start + 86400)
    assert job.node_list == "gpu[05-06]"
    assert (job.reason, job.dependency) == ("", "")
    assert job.priority is not None


def _standing(*rows: tuple[str, str, str]) -> squeue.MoveTarget:
    """Of rows of id, uid and asked nodes, as 22.05.8 printed them."""
    state_cells = ("PENDING", "Dependency", "1", f"afterany:{rows[0][0]}(unfulfilled)")
    lines = (
        "".join(f"{cell}{delimited_rows.SEPARATOR}" for cell in row + state_cells) + "\n"
        for row in rows
    )
    return squeue.parse_move_target("".join(lines))


def test_whose_a_job_is_and_the_nodes_that_it_asks_for() -> None:
    """Of a het job, the components in any order."""
    assert squeue.build_move_target_argv(JobId(7))[-2] == "--jobs=7"
    shown = HoldState(is_waiting=True, reason="Dependency", priority=1)
    behind = "afterany:7(unfulfilled)"
    assert _standing(("7", "1001", "")) == squeue.MoveTarget(1001, "", (shown,), behind)
    assert _standing(("7", "1001", "gpu[01-02]")).requested_nodes == "gpu[01-02]"
    assert _standing(("7", "1001", ""), ("8", "1001", "gpu02")).requested_nodes == "gpu02"
    for half in ("", "7\x1f1001\x1fgpu01"):
        with pytest.raises(MalformedText):
            squeue.parse_move_target(half)
    with pytest.raises(ForgedAnswer):
        _standing(("7", "1001", ""), ("7", "1002", ""))


def test_a_standby_is_not_eligible_and_names_its_predecessor(told: Told) -> None:
    job = _find_job_by_fate(told, "successor")
    assert job.state is JobState.PENDING
    assert job.reason == "Dependency"
    assert job.dependency == f"afterany:{told.by.job_id('running')}(unfulfilled)"
    assert (job.eligible, job.start, job.end, job.node_list) == (None, None, None, "")
    assert job.comment == "mirage:c1:1"
    assert (job.nodes, job.gpus) == (2, 8)


def test_a_pending_job_has_the_start_that_backfill_plans(told: Told) -> None:
    job = _find_job_by_fate(told, "resources")
    assert job.reason == "Resources"
    assert job.planned_start is not None
    assert job.planned_start > told.by.taken_at()
    assert (job.start, job.end) == (None, None)
    assert (job.nodes, job.gpus) == (6, 48)


def test_a_pending_array_is_one_row_and_its_started_tasks_are_jobs(told: Told) -> None:
    assert _find_job_by_fate(told, "array-pending").state is JobState.PENDING
    shown = squeue.parse_jobs(told.by.answer("squeue.txt"), SEPARATOR)
    arrays = {job.job_id for job in shown if job.array}
    assert arrays == {told.by.job_id("array-pending"), told.by.job_id("array-running")}
    tasks = [
        j
        for j in shown
        if j.submit == _find_job_by_fate(told, "array-running").submit and not j.array
    ]
    assert [task.state for task in tasks if task.user == "bob"] == [JobState.RUNNING] * 2


def test_a_het_job_is_one_job_with_the_resources_of_all_components(told: Told) -> None:
    job = _find_job_by_fate(told, "het")
    assert (job.nodes, job.cpus, job.gpus) == (2, 6, 3)
    assert job.node_list.count("gpu") == 2
    assert told.queue.find_job(type(job.job_id)(job.job_id + 1)) is None


def test_limits_and_ends_without_a_limit(told: Told) -> None:
    unlimited = _find_job_by_fate(told, "unlimited")
    assert (unlimited.time_limit_s, unlimited.end) == (UNLIMITED, None)
    assert _find_job_by_fate(told, "no-limit-debug").time_limit_s == 1800
    assert _find_job_by_fate(told, "over-limit").time_limit_s == 5 * 86400


@pytest.mark.parametrize(
    ("fate", "state", "reason"),
    [
        ("cancelled", JobState.CANCELLED, ""),
        ("cancelled-held", JobState.CANCELLED, "JobHeldUser"),
        ("completed", JobState.COMPLETED, ""),
        ("deadline", JobState.DEADLINE, "DeadLine"),
        ("failed", JobState.FAILED, "NonZeroExitCode"),
        ("timeout", JobState.TIMEOUT, "TimeLimit"),
        ("node-failed", JobState.NODE_FAIL, "NodeDown"),
        ("suspended", JobState.SUSPENDED, ""),
        ("held", JobState.PENDING, "JobHeldUser"),
        ("begin", JobState.PENDING, "BeginTime"),
        ("never", JobState.PENDING, "DependencyNeverSatisfied"),
    ],
)
def test_each_fate_has_its_state_and_reason(
    told: Told, fate: str, state: JobState, reason: str
) -> None:
    job = _find_job_by_fate(told, fate)
    assert (job.state, job.reason) == (state, reason)


def test_a_drained_node_that_a_job_asks_for_is_told_in_the_releases_words(told: Told) -> None:
    job = _find_job_by_fate(told, "down-node")
    assert (job.state, job.reason) == (JobState.PENDING, told.by.expected()["drained"])


@pytest.mark.parametrize("fate", ["cancelled-held", "cancelled-dependent", "deadline"])
def test_a_job_that_ended_without_running_has_no_start(told: Told, fate: str) -> None:
    job = _find_job_by_fate(told, fate)
    assert job.start is None
    assert job.end is not None


def test_a_requeued_job_is_submitted_anew(told: Told) -> None:
    assert _find_job_by_fate(told, "requeued").submit > _find_job_by_fate(told, "completed").submit


@pytest.mark.parametrize(
    ("fate", "name"),
    [
        ("hostile-newline", "first line\nsecond | line\n"),
        ("hostile-separator", "with\x1fseparator\x1e and\ttab"),
        ("hostile-long", "x" * 300),
        ("hostile-name", "a|b c\td 'e' \"f\" $HOME `g` é 作业 🚀"),
        ("hostile-empty", " "),
    ],
)
def test_a_users_text_comes_through_whole_and_breaks_nothing(
    told: Told, fate: str, name: str
) -> None:
    assert _find_job_by_fate(told, fate).name == name


def test_every_job_is_there_once(told: Told) -> None:
    # Ids 1 to 52, one of them the second component of the het job.
    assert len(set(told.queue.job_id.tolist())) == len(told.queue) == 51


def test_no_jobs_is_an_empty_queue() -> None:
    assert len(squeue.parse_queue("", 5, SEPARATOR)) == 0


@pytest.mark.parametrize("lost", [1, 2, 5, 40, 400, 4000])
def test_an_answer_cut_short_is_refused(captures: Captures, lost: int) -> None:
    with pytest.raises(MalformedText):
        squeue.parse_queue(captures.answer("squeue.txt")[:-lost], 0, SEPARATOR)


def test_a_guessed_separator_forges_no_row(captures: Captures) -> None:
    """A user who writes the plain separator changes neither the number of rows nor another's."""
    forged = captures.answer("squeue.txt").replace("with\x1fseparator", "\x1f\n99\x1fN/A\x1f")
    jobs = squeue.parse_jobs(forged, SEPARATOR)
    assert len(jobs) == 51
    assert 99 not in {job.job_id for job in jobs}


def test_a_padded_field_is_refused_since_it_may_be_cut(captures: Captures) -> None:
    padded = captures.answer("squeue.txt").replace("1" + SEPARATOR, "1   " + SEPARATOR, 1)
    with pytest.raises(MalformedText, match="not a number"):
        squeue.parse_queue(padded, 0, SEPARATOR)


def test_the_question_asks_for_everything_in_full() -> None:
    argv = squeue.build_argv()
    assert argv[0] == "squeue"
    assert {"--all", "--states=all", "--noheader", "--noconvert"} <= set(argv)
    asked = squeue.build_environment("|")["SQUEUE_FORMAT2"].split(",")
    assert all(field.endswith(":|") for field in asked)


def test_a_job_of_two_users_makes_the_whole_answer_somebody_elses_work(captures: Captures) -> None:
    """As if somebody had guessed the separator: the row of alice's job, with bob's uid."""
    whole = captures.answer("squeue.txt")
    row = next(line for line in whole.split(f"{SEPARATOR}\n") if "1001" in line)
    forged = row.replace("1001", "1002") + f"{SEPARATOR}\n"
    with pytest.raises(ForgedAnswer, match="none is believed"):
        squeue.parse_jobs(whole + forged, SEPARATOR)


_ROW = {
    "JobID": "12",
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "UserName": "alice",
    "UserID": "1001",
    "Account": "(null)",
    "Partition": "gpu,long",
    "QOS": "(null)",
    "State": "RUNNING",
    "Reason": "None",
    "PriorityLong": "1",
    "SubmitTime": "100",
    "EligibleTime": "100",
    "StartTime": "200",
    "EndTime": "NONE",
    "TimeLimit": "INVALID",
    "NumNodes": "2-4",
    "NumCPUs": "8",
    "tres-alloc": "cpu=8,mem=125G,node=2,billing=8",
    "tres-per-node": "gres:gpu:a100:4",
    "tres-per-job": "N/A",
    "tres-per-task": "N/A",
    "NumTasks": "8",
    "tres-per-socket": "N/A",
    "Sockets": "*",
    "Dependency": "(null)",
    "NodeList": "(null)",
    "Name": "(null)",
    "Comment": "(null)",
}


def _answer_with(**changes: str) -> str:
    return "".join(f"{cell}|" for cell in (_ROW | changes).values()) + "\n"


def test_gpus_are_told_by_the_request_where_the_site_does_not_account_them() -> None:
    assert squeue.parse_jobs(_answer_with(), "|")[0].gpus == 8
    per_job = _answer_with(**{"tres-per-node": "N/A", "tres-per-job": "gres:gpu:3"})
    assert squeue.parse_jobs(per_job, "|")[0].gpus == 3


@pytest.mark.parametrize(
    ("cells", "gpus"),
    [
        # Of 22.05, and of 24.11.
        ({"tres-per-task": "gres:gpu:2", "NumTasks": "2"}, 4),
        ({"tres-per-task": "gres/gpu:h100=2,gres/gpu:a100=1", "NumTasks": "2"}, 6),
        ({"tres-per-task": "gres/gpu=2", "NumTasks": "N/A"}, None),
        ({"tres-per-socket": "gres:gpu:2", "Sockets": "2"}, 8),
        ({"tres-per-socket": "gres:gpu:2", "Sockets": "*"}, None),
        ({"tres-per-node": "gres:gpu:a b:1"}, None),
        ({"tres-per-node": "gres:gpu:x:y:z:1"}, None),
        ({"tres-per-node": "gres:gpu:9999999T"}, None),
        ({"tres-alloc": "cpu=1,gres/gpu=10995115178248372224"}, None),
        ({"tres-alloc": "N/A", "tres-per-job": "gres:gpu:3"}, 3),
        ({"tres-alloc": "N/A"}, 0),
        ({"tres-alloc": "cpu=8,energy=16E", "tres-per-job": "gres:gpu:3"}, 3),
        ({"tres-alloc": "cpu=8,energy=16E,gres/gpu=5", "tres-per-job": "gres:gpu:3"}, 5),
        ({"tres-alloc": "cpu=8,gres/gpu=many"}, None),
    ],
)
def test_an_odd_request_costs_the_number_of_gpus_and_never_the_row(
    cells: dict[str, str], gpus: int | None
) -> None:
    unread = Unread()
    answer = _answer_with(**{"tres-per-node": "N/A"} | cells)
    (job,) = squeue.parse_queue(answer, 0, "|", unread)
    assert (job.gpus, unread.rows) == (gpus, [])
    assert unread.without_gpus == ([12] if gpus is None else [])


def test_several_partitions_a_range_of_nodes_and_no_association() -> None:
    job = squeue.parse_jobs(_answer_with(), "|")[0]
    assert (job.partition, job.nodes, job.account, job.qos) == ("gpu,long", 2, "", "")
    assert job.time_limit_s is None


def test_a_state_of_a_later_slurm_is_unknown_and_the_job_is_there() -> None:
    job = squeue.parse_jobs(_answer_with(State="HIBERNATING"), "|")[0]
    assert job.state is JobState.UNKNOWN


def test_a_job_that_the_queue_calls_requeued_waits() -> None:
    job = squeue.parse_jobs(_answer_with(State="REQUEUED"), "|")[0]
    assert (job.state, job.end) == (JobState.PENDING, None)


@pytest.mark.parametrize(
    "word",
    ["EXPEDITING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"],
)
def test_a_job_that_was_put_back_waits_whatever_it_is_called(word: str) -> None:
    job = squeue.parse_jobs(_answer_with(State=word), "|")[0]
    assert (job.state.value, job.state.is_waiting, job.start, job.end) == (word, True, None, None)


def test_a_component_without_its_leader_stays_a_job() -> None:
    job = squeue.parse_jobs(_answer_with(HetJobID="11"), "|")[0]
    assert (job.job_id, job.nodes) == (12, 2)


def test_what_does_not_read_is_named_with_its_job() -> None:
    with pytest.raises(MalformedText, match="job '12': not a number: 'soon'"):
        squeue.parse_jobs(_answer_with(SubmitTime="soon"), "|")
