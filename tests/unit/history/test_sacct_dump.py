"""sacct dumps: any columns, local or epoch times, steps, arrays, and separators inside names."""

from pathlib import Path

import pytest

from mirage.domain.job import ArrayTasks, Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import UnknownFormat
from mirage.history.formats.trace_file import TraceFile, open_trace
from tests.support.traces import read_jobs


def dump(tmp_path: Path, *lines: str, timezone: str | None = None) -> TraceFile:
    path = tmp_path / "dump.psv"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return open_trace(path, timezone=timezone)


def test_every_column_that_mirage_knows_is_read(tmp_path: Path) -> None:
    columns = {
        "JobID": "70_3",
        "JobIDRaw": "73",
        "JobName": "train",
        "User": "ann",
        "UID": "1001",
        "Account": "bio",
        "Partition": "gpu",
        "QOS": "normal",
        "Submit": "1700000000",
        "Eligible": "1700000010",
        "Start": "1700000100",
        "End": "1700003700",
        "ElapsedRaw": "3600",
        "State": "OUT_OF_MEMORY",
        "ExitCode": "0:125",
        "TimelimitRaw": "120",
        "AllocTRES": "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=2",
        "NodeList": "gpu[01-02]",
        "Priority": "4242",
        "Reason": "None",
        "Comment": "mirage:abcdefgh:2",
        "SubmitLine": "sbatch job.sh",
        "MaxRSS": "whatever",
    }
    found = read_jobs(dump(tmp_path, "|".join(columns), "|".join(columns.values())))
    assert found == [
        Job(
            job_id=found[0].job_id,
            submit=1700000000,
            state=JobState.OUT_OF_MEMORY,
            user="ann",
            uid=1001,
            account="bio",
            partition="gpu",
            qos="normal",
            name="train",
            priority=4242,
            eligible=1700000010,
            start=1700000100,
            end=1700003700,
            time_limit_s=7200,
            nodes=2,
            cpus=8,
            gpus=4,
            memory_mib=64 * 1024,
            exit_code="0:125",
            node_list="gpu[01-02]",
            comment="mirage:abcdefgh:2",
            submit_line="sbatch job.sh",
            tasks=ArrayTasks(JobId(70)),
        )
    ]
    assert found[0].job_id == 73


def test_three_columns_in_any_order_are_enough(tmp_path: Path) -> None:
    (job,) = read_jobs(dump(tmp_path, "State|JobID|Submit", "CANCELLED by 1001|9|1700000000"))
    assert (job.job_id, job.state, job.start, job.nodes) == (9, JobState.CANCELLED, None, 1)


def test_parsable_output_with_its_closing_separator_is_the_same(tmp_path: Path) -> None:
    (job,) = read_jobs(dump(tmp_path, "State|JobID|Submit|", "FAILED|9|1700000000|"))
    assert job.job_id == 9


def test_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"\(JobID, Submitt, User\) there is no Submit, State"):
        dump(tmp_path, "JobID|Submitt|User", "1|1700000000|ann")


def test_steps_are_skipped_and_counted(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|Submit|State",
        "1|1700000000|COMPLETED",
        "1.batch|1700000000|COMPLETED",
        "1.0|1700000000|COMPLETED",
    )
    assert [job.job_id for job in read_jobs(trace)] == [1]
    assert trace.tally.skipped == {"job step": 2}
    assert not trace.tally.refused


@pytest.mark.parametrize(
    ("listed", "count", "limit"),
    [
        ("[1,3,7-9:2%2]", 4, 2),
        ("[0-4000000]", 4_000_001, 0),
        ("[0-999999999]", None, 0),
        ("[1-5,9-7]", None, 0),
        ("[1-3,5,...%4]", None, 4),
    ],
)
def test_no_row_stands_for_more_tasks_than_slurm_has(
    tmp_path: Path, listed: str, count: int | None, limit: int
) -> None:
    """Else one row would fill the memory with jobs."""
    row = f"700|700_{listed}|1700000000|PENDING"
    (job,) = read_jobs(dump(tmp_path, "JobIDRaw|JobID|Submit|State", row))
    assert job.tasks == ArrayTasks(JobId(700), count, limit)


def test_array_tasks_need_their_raw_id(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|Submit|State",
        "10_[3-7]|1700000000|PENDING",
        "10_2|1700000000|RUNNING",
    )
    (job,) = read_jobs(trace)
    assert (job.job_id, job.array) == (10, True)
    assert trace.tally.refused == {"array task without JobIDRaw": 1}


def test_a_het_job_is_its_leader(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|JobIDRaw|Submit|State|NNodes",
        "12+0|12|1700000000|RUNNING|2",
        "12+1|13|1700000000|RUNNING|1",
    )
    (job,) = read_jobs(trace)
    assert (job.job_id, job.nodes) == (12, 2)
    assert trace.tally.skipped == {"het component, told by its leader": 1}


def test_of_a_range_of_nodes_the_least_counts(tmp_path: Path) -> None:
    (job,) = read_jobs(dump(tmp_path, "JobID|Submit|State|NNodes", "1|1700000000|PENDING|2-4"))
    assert job.nodes == 2


def test_a_job_cancelled_while_it_waited_never_started(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|State"
    row = "1|1700000000|1700000500|1700000500|CANCELLED by 0"
    (job,) = read_jobs(dump(tmp_path, header, row))
    assert (job.start, job.end) == (None, 1700000500)


def test_a_word_that_slurm_does_not_have_is_an_unknown_state(tmp_path: Path) -> None:
    (job,) = read_jobs(dump(tmp_path, "JobID|Submit|State", "1|1700000000|DREAMING"))
    assert job.state is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("column", "text", "seconds"),
    [
        ("TimelimitRaw", "60", 3600),
        ("TimelimitRaw", "UNLIMITED", UNLIMITED),
        ("TimelimitRaw", "Partition_Limit", None),
        ("Timelimit", "2-00:00:00", 172800),
        ("Timelimit", "", None),
    ],
)
def test_time_limits(tmp_path: Path, column: str, text: str, seconds: int | None) -> None:
    header, row = f"JobID|Submit|State|{column}", f"1|1700000000|PENDING|{text}"
    assert read_jobs(dump(tmp_path, header, row))[0].time_limit_s == seconds


def test_local_times_are_of_the_zone_given(tmp_path: Path) -> None:
    header, row = "JobID|Submit|State", "1|2023-03-01T12:00:00|PENDING"
    (there,) = read_jobs(dump(tmp_path, header, row, timezone="America/Chicago"))
    (utc,) = read_jobs(dump(tmp_path, header, row, timezone="UTC"))
    assert utc.submit == 1677672000
    assert there.submit - utc.submit == 6 * 3600


def test_the_hour_that_a_year_has_twice_is_read_in_order(tmp_path: Path) -> None:
    """01:50 to 01:10 on the night summer time ends is 20 minutes, not a negative run."""
    header = "JobID|Submit|Start|End|State"
    row = "1|2022-11-06T00:10:00|2022-11-06T01:50:00|2022-11-06T01:10:00|COMPLETED"
    (job,) = read_jobs(dump(tmp_path, header, row, timezone="America/Chicago"))
    assert job.start is not None
    assert job.end is not None
    assert job.end - job.start == 20 * 60


def test_separators_inside_free_text_are_put_back(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|JobName|Submit|State|NNodes|SubmitLine",
        "1|a|b|1700000000|COMPLETED|1|sbatch x",
        "2|plain|1700000000|COMPLETED|1|sbatch --wrap 'a | b || c'",
    )
    first, second = read_jobs(trace)
    assert (first.name, first.submit_line) == ("a|b", "sbatch x")
    assert second.submit_line == "sbatch --wrap 'a | b || c'"


@pytest.mark.parametrize(
    "asked",
    ["v100|a100", "[v100|a100]", "(v100|a100|h100)&ib", "[rack1*2|rack2*2]", "|a100", "v100||a100"],
)
def test_a_row_keeps_its_numbers_beside_the_operators_of_a_constraint(
    tmp_path: Path, asked: str
) -> None:
    trace = dump(
        tmp_path,
        "JobID|User|State|Submit|TimelimitRaw|Constraints|NNodes|NCPUS",
        f"2|bea|COMPLETED|1700000060|120|{asked}|4|8",
    )
    (job,) = read_jobs(trace)
    assert (job.user, job.nodes, job.cpus, job.time_limit_s) == ("bea", 4, 8, 7200)
    assert not trace.tally.refused


@pytest.mark.parametrize(
    "header",
    [
        "JobID|SubmitLine|State|Submit|Constraints|NNodes|NCPUS",
        "JobID|Constraints|State|Submit|SubmitLine|NNodes|NCPUS",
        "JobID|SubmitLine|State|Submit|NNodes|NCPUS|Constraints",
    ],
)
def test_two_cells_of_one_row_may_each_hold_separators(tmp_path: Path, header: str) -> None:
    cells = {
        "JobID": "2",
        "SubmitLine": "sbatch -C v100|a100|h100 --wrap 'a | b'",
        "State": "COMPLETED",
        "Submit": "1700000060",
        "Constraints": "v100|a100|h100",
        "NNodes": "4",
        "NCPUS": "8",
    }
    trace = dump(tmp_path, header, "|".join(cells[name] for name in header.split("|")))
    (job,) = read_jobs(trace)
    assert (job.nodes, job.cpus, job.submit_line) == (4, 8, cells["SubmitLine"])


def test_separators_that_fit_in_too_many_ways_are_refused(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|JobName|Submit|Comment|State|Constraints|NNodes",
        "3|a|1700000060|b|COMPLETED" + "|c" * 500,
    )
    assert read_jobs(trace) == []
    assert sum(trace.tally.refused.values()) == 1


def test_separators_that_fit_nowhere_or_in_two_ways_are_refused(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|Submit|State|JobName|User|Comment",
        "1|1700000000|FAILED|a|b|c|d",
        "2|17000|00000|FAILED|a|b|c",
    )
    assert read_jobs(trace) == []
    assert trace.tally.refused == {
        "more fields than columns, which fit in several ways": 1,
        "more fields than columns": 1,
    }


def test_fields_that_do_not_read_are_refused(tmp_path: Path) -> None:
    trace = dump(
        tmp_path,
        "JobID|Submit|State|AllocTRES|Timelimit|ElapsedRaw",
        "1|1700000000|FAILED|rubbish||",
        "2|1700000000|FAILED||1-x|",
        "3|1700000000|FAILED|||-5",
    )
    assert read_jobs(trace) == []
    assert trace.tally.refused == {
        "TRES does not read": 1,
        "time limit does not read": 1,
        "negative run time": 1,
    }


@pytest.mark.parametrize(
    ("columns", "row", "mib"),
    [
        ("ReqMem", "900M", 900),
        ("ReqMem", "4Gn", 8192),
        ("ReqMem", "2Gc", 16384),
        ("ReqMem", "1.5G", 1536),
        ("ReqMem", "?", 0),
        ("ReqMem", "", 0),
        ("ReqTRES", "cpu=8,mem=3G,node=2", 3072),
        ("ReqMem|AllocTRES", "2Gc|cpu=8,mem=5000M,node=2", 5000),
        ("ReqMem|AllocTRES", "2Gc|", 16384),
    ],
)
def test_memory_is_what_was_given_or_else_asked_for_in_sum(
    tmp_path: Path, columns: str, row: str, mib: int
) -> None:
    head = f"JobID|Submit|State|NNodes|NCPUS|{columns}"
    (job,) = read_jobs(dump(tmp_path, head, f"7|1700000000|COMPLETED|2|8|{row}"))
    assert job.memory_mib == mib
