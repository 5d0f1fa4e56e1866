"""Accounting records, as a real sacct told them."""

from dataclasses import dataclass

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import ForgedAnswer, MalformedText
from mirage.slurm.commands import sacct
from mirage.slurm.commands.sacct_texts import JobTexts, is_forged, parse_texts
from mirage.slurm.text import delimited_rows
from tests.support.slurm.captured import SEPARATOR, Captures


@dataclass(frozen=True)
class Told:
    jobs: list[Job]
    by: Captures


def _fields(captures: Captures) -> sacct.QueryFields:
    return sacct.choose_fields(captures.answer("sacct-helpformat.txt"))


def _told(captures: Captures, name: str) -> Told:
    """Both answers to one question, as sacct printed them one after the other."""
    answer, fields = captures.answer, _fields(captures)
    facts = sacct.parse_facts(answer(f"{name}.txt"), fields.facts)
    texts = parse_texts(answer(f"{name}-texts.txt"), fields.texts, SEPARATOR, facts.keys())
    assert (texts.misattributed_rows, texts.group_contested()) == (0, {})
    return Told(sacct.build_jobs(facts, texts.select_settled()), captures)


@pytest.fixture(scope="module")
def by_id(captures: Captures) -> Told:
    return _told(captures, "sacct-jobs")


@pytest.fixture(scope="module")
def window(captures: Captures) -> Told:
    return _told(captures, "sacct-window")


def _runs(told: Told, fate: str) -> list[Job]:
    runs = (job for job in told.jobs if job.job_id == told.by.job_id(fate))
    return sorted(runs, key=lambda job: job.submit)


def test_the_wait_is_asked_for_by_the_name_that_the_release_has_for_it(captures: Captures) -> None:
    asked = {"Reserved", "Planned"} & set(_fields(captures).facts)
    assert asked == {captures.expected()["waited"]}


def test_fields_that_a_sacct_does_not_have_are_not_asked_for() -> None:
    fields = sacct.choose_fields("State UID JobIDRaw Submit Account")
    assert fields.facts == ("JobIDRaw", "UID", "State", "Submit")
    assert fields.texts == ("JobIDRaw", "Submit", "UID", "Account")


def test_a_sacct_without_ids_or_states_is_of_no_use() -> None:
    with pytest.raises(MalformedText, match="does not list JobIDRaw, UID, State"):
        sacct.choose_fields("Submit Account")


def test_a_completed_job_is_told_in_full(window: Told) -> None:
    (job,) = _runs(window, "completed")
    assert job.state is JobState.COMPLETED
    assert (job.user, job.uid, job.account, job.qos) == (
        "alice",
        window.by.uid("alice"),
        "research",
        "normal",
    )
    assert (job.partition, job.name, job.comment) == ("gpu", "resnet", "mirage:c0:0")
    assert (job.nodes, job.cpus, job.gpus, job.node_list) == (1, 2, 1, "gpu01")
    assert (job.time_limit_s, job.exit_code, job.reason) == (1800, "0:0", "")
    assert job.eligible is not None
    assert job.start is not None
    assert job.end is not None
    assert job.submit <= job.eligible <= job.start < job.end <= window.by.taken_at()
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
        ("deadline", JobState.DEADLINE, "1:0"),
    ],
)
def test_each_fate_has_its_state(window: Told, fate: str, state: JobState, exit_code: str) -> None:
    (job,) = _runs(window, fate)
    assert (job.state, job.exit_code) == (state, exit_code)
    assert job.end is not None


def test_a_failed_node_ends_a_job_with_the_releases_exit_code(window: Told) -> None:
    (job,) = _runs(window, "node-failed")
    assert (job.state, job.exit_code) == (JobState.NODE_FAIL, window.by.expected()["node_failed"])
    assert job.end is not None


def test_a_requeued_job_has_a_record_for_each_run(window: Told) -> None:
    first, second = _runs(window, "requeued")
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.COMPLETED)
    assert first.end is not None
    assert first.end <= second.submit


def test_a_node_failure_with_requeue_has_both_runs(window: Told) -> None:
    states = [job.state for job in _runs(window, "node-failed-requeued")]
    assert states == [JobState.NODE_FAIL, JobState.RUNNING]


_NEVER_ELIGIBLE = ["cancelled-held", "cancelled-dependent", "successor", "held", "never"]


@pytest.mark.parametrize("fate", _NEVER_ELIGIBLE)
def test_a_window_leaves_out_jobs_never_eligible_and_ids_do_not(
    window: Told, by_id: Told, fate: str
) -> None:
    assert _runs(window, fate) == []
    (job,) = _runs(by_id, fate)
    assert (job.eligible, job.start) == (None, None)


def test_a_job_cancelled_by_somebody_is_cancelled(by_id: Told) -> None:
    (job,) = _runs(by_id, "cancelled-dependent")
    assert job.state is JobState.CANCELLED
    assert job.end is not None


def test_unlimited_and_the_partitions_own_limit(by_id: Told) -> None:
    assert _runs(by_id, "unlimited")[0].time_limit_s == UNLIMITED
    assert _runs(by_id, "no-limit-pending")[0].time_limit_s is None
    assert _runs(by_id, "no-limit-debug")[0].time_limit_s == 1800


def test_a_het_job_is_one_record_with_all_resources(window: Told) -> None:
    (job,) = _runs(window, "het")
    assert (job.nodes, job.cpus, job.gpus) == (2, 6, 3)


def test_only_pending_arrays_are_marked(by_id: Told) -> None:
    marked = {job.job_id for job in by_id.jobs if job.array}
    assert marked == {by_id.by.job_id("array-pending"), by_id.by.job_id("array-running")}


def test_a_users_text_breaks_nothing(window: Told) -> None:
    (newline,) = _runs(window, "hostile-newline")
    assert newline.comment == "first line\nsecond | line\n"
    assert newline.submit_line.endswith("# two lines")
    (separator,) = _runs(window, "hostile-separator")
    assert separator.name == "with\x1fseparator\x1e and\ttab"


@pytest.mark.parametrize("lost", [1, 3, 50, 500])
def test_an_answer_cut_short_is_refused(captures: Captures, lost: int) -> None:
    fields = _fields(captures)
    with pytest.raises(MalformedText):
        sacct.parse_facts(captures.answer("sacct-window.txt")[:-lost], fields.facts)
    texts = captures.answer("sacct-window-texts.txt")
    with pytest.raises(MalformedText):
        parse_texts(texts[:-lost], fields.texts, SEPARATOR, set())


def test_an_empty_answer_lacks_even_the_header() -> None:
    with pytest.raises(MalformedText, match="without its header"):
        sacct.parse_facts("", _HEADER)
    with pytest.raises(MalformedText, match="cut short"):
        parse_texts("", _TEXTS, SEPARATOR, set())


_HEADER = ("JobIDRaw", "JobID", "UID", "Submit", "State", "Eligible", "Start", "Planned")


def _owned(row: str) -> list[str]:
    job_id, task, *others = row.rstrip("|").split("|")
    cells = [job_id, task, "1001", *others]
    return cells + [""] * (len(_HEADER) - len(cells))


def _records(*told: str) -> list[Job]:
    """Of rows without their owner, who is uid 1001."""
    lines = [_HEADER, *(_owned(row) for row in told)]
    answer = "".join(
        "".join(f"{cell}{delimited_rows.SEPARATOR}" for cell in line) + "\n" for line in lines
    )
    return sacct.build_jobs(sacct.parse_facts(answer, _HEADER), {})


def test_a_header_alone_is_no_jobs() -> None:
    assert _records() == []


@pytest.mark.parametrize(
    ("told", "cpus"),
    [
        # 24.11: NCPUS is 0 without an allocation. 22.05: what was requested.
        ("PENDING|2|0|cpu=8,mem=16G,node=2,billing=8||", 8),
        ("CANCELLED by 1001|1|0|cpu=6,node=1|", 6),
        ("PENDING|1|6|cpu=6,node=1|", 6),
        ("PENDING|1|0||", 0),
    ],
)
def test_a_job_without_an_allocation_has_the_cpus_that_it_asks_for(
    captures: Captures, told: str, cpus: int
) -> None:
    header = ("JobIDRaw", "JobID", "UID", "Submit", "State", "NNodes", "NCPUS", "ReqTRES")
    row = ["82", "82", "1001", "100", *told.split("|")[:4]]
    lines = [
        "".join(f"{cell}{delimited_rows.SEPARATOR}" for cell in line) for line in (header, row)
    ]
    facts = sacct.parse_facts("".join(f"{line}\n" for line in lines), header)
    (job,) = sacct.build_jobs(facts, {})
    assert job.cpus == cpus
    assert set(header) <= set(_fields(captures).facts), "and all of them are asked for"


def test_absent_fields_are_not_known() -> None:
    (job,) = _records("7|7|100|COMPLETED|100|200|00:01:40|")
    assert job == Job(
        job_id=JobId(7),
        uid=1001,
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
    argv = sacct.build_argv(_HEADER, sacct.build_window_options(100, 200))
    assert {"--starttime=uts100", "--endtime=uts200", "--duplicates", "--allocations"} <= set(argv)
    assert (
        sacct.build_argv(_HEADER, sacct.build_id_options([JobId(3), JobId(4)]))[-1] == "--jobs=3,4"
    )


_TEXTS = ("JobIDRaw", "Submit", "UID", "Comment")
_KNOWN = {("7", "100", "1001"), ("8", "100", "1002")}
_END = "<>\n"


def _texts(*told: str) -> JobTexts:
    header = "<>".join(_TEXTS)
    return parse_texts(_END.join([header, *told, ""]), _TEXTS, "<>", _KNOWN)


def test_a_row_written_into_a_comment_takes_no_text_from_anybody() -> None:
    """Bob, uid 1002, has read the separator in time: job 7 is not his."""
    about_alice = ("7<>100<>1001<>mirage:bobs:2", "9<>100<>1001<>made up")
    comment = _END.join(["mine", *about_alice, "8<>100<>1002<>mine"])
    texts = _texts(f"8<>100<>1002<>{comment}", "7<>100<>1001<>alice's own")
    assert texts.group_contested() == {"1001": [("7", "100", "1001")]}
    assert {named: row["Comment"] for named, row in texts.select_settled().items()} == {
        ("8", "100", "1002"): "mine"
    }
    own = {"Comment": "alice's own"}
    assert [is_forged(row, row | own) for row in texts.rows_by_record["7", "100", "1001"]] == [
        True,
        False,
    ]


def test_a_row_of_another_length_or_owner_costs_nobody_else() -> None:
    texts = _texts(
        "8<>100<>1002<>one<>too many", "7<>100<>1002<>whose?", "7<>100<>1001<>alice's own"
    )
    assert texts.misattributed_rows == 1
    assert texts.group_contested() == {"1002": [("8", "100", "1002")]}
    assert [row["Comment"] for row in texts.select_settled().values()] == ["alice's own"]


def test_a_text_that_begins_with_a_newline_ends_no_row() -> None:
    """Else alice's own row would be odd, and one that bob wrote the only one of her record."""
    texts = _texts("7<>100<>1001<>\nalice's own", f"8<>100<>1002<>x{_END}7<>100<>1001<>bob's")
    assert [row["Comment"] for row in texts.rows_by_record["7", "100", "1001"]] == [
        "\nalice's own",
        "bob's",
    ]
    assert texts.group_contested() == {"1001": [("7", "100", "1001")]}


def test_a_record_that_is_two_users_own_is_refused() -> None:
    cells = ["7", "7", "1001", "100", "RUNNING", "100", "200", ""]
    other = [*cells[:2], "1002", *cells[3:]]
    lines = [list(_HEADER), cells, other]
    answer = "".join(
        "".join(f"{cell}{delimited_rows.SEPARATOR}" for cell in line) + "\n" for line in lines
    )
    with pytest.raises(ForgedAnswer, match="uid 1001 and to uid 1002"):
        sacct.parse_facts(answer, _HEADER)
