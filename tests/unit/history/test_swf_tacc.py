"""The Standard Workload Format and TACC's logs."""

from pathlib import Path

import pytest

from mirage.domain.job import Job, JobState
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats.trace_file import TraceFile, open_trace
from mirage.history.formats.trace_row import TraceFormat
from tests.support.traces import read_jobs

SWF_HEADER = "; Version: 2.2\n; UnixStartTime: 1600000000\n; MaxNodes: 10\n; MaxProcs: 40\n"
TACC_COLUMNS = (
    *("JobID", "JobName", "UID", "Start", "Submit", "End", "Priority", "TimelimitRaw"),
    *("ExitCode", "NNodes"),
)

_SWF_NAMES = (
    *("submit", "wait", "run", "procs", "cpu", "mem", "asked", "limit", "reqmem", "status"),
    *("user", "group", "app", "queue"),
)


def opened(tmp_path: Path, text: str, trace_format: TraceFormat | None = None) -> TraceFile:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return open_trace(path, trace_format)


def swf_row(job: int, **fields: int) -> str:
    names = _SWF_NAMES
    row = dict.fromkeys(names, -1) | {"submit": 100, "wait": 50, "run": 600, "status": 1} | fields
    return " ".join(map(str, [job, *row.values(), -1, -1, -1])) + "\n"


def test_swf_times_and_sizes_come_from_the_header(tmp_path: Path) -> None:
    row = swf_row(1, procs=6, asked=8, limit=3600, user=12, group=3, queue=2)
    (job,) = read_jobs(opened(tmp_path, SWF_HEADER + row))
    assert job == Job(
        job_id=job.job_id,
        submit=1600000100,
        state=JobState.COMPLETED,
        user="12",
        account="3",
        partition="2",
        start=1600000150,
        end=1600000750,
        time_limit_s=3600,
        nodes=2,
        cpus=8,
    )


def test_swf_states_and_what_is_unknown(tmp_path: Path) -> None:
    rows = [
        swf_row(1, status=0),
        swf_row(2, status=5, run=0),
        swf_row(3, status=5, run=60),
        swf_row(4, status=-1, run=-1, wait=-1),
    ]
    found = read_jobs(opened(tmp_path, SWF_HEADER + "".join(rows)))
    assert [j.state for j in found] == [
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.CANCELLED,
        JobState.UNKNOWN,
    ]
    assert (found[1].start, found[1].end) == (None, 1600000150)
    assert (found[2].start, found[2].end) == (1600000150, 1600000210)
    assert (found[3].start, found[3].end) == (None, None)


def test_swf_rows_refused_and_skipped(tmp_path: Path) -> None:
    rows = [
        swf_row(1, run=-60),
        swf_row(2, wait=-60),
        "3 4 5\n",
        swf_row(4).replace("600", "x"),
        swf_row(5, status=3),
    ]
    trace = opened(tmp_path, SWF_HEADER + "".join(rows))
    assert read_jobs(trace) == []
    assert trace.tally.refused == {
        "negative run time": 1,
        "start before submit": 1,
        "not 18 fields": 1,
        "a field is not a number": 1,
    }
    assert trace.tally.skipped == {"partial execution": 1}
    assert trace.tally.first["negative run time"] == 5


def test_swf_without_a_start_time_cannot_be_placed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no header line '; UnixStartTime: SECONDS'"):
        read_jobs(opened(tmp_path, swf_row(1)))


def tacc_row(job: int, start: str, end: str, **fields: str) -> list[str]:
    row = {"JobID": str(job), "JobName": "dimer", "UID": "00007", "Start": start}
    row |= {"Submit": "2023-01-10T08:00:00", "End": end, "Priority": "17"}
    row |= {"TimelimitRaw": "60", "ExitCode": "0:0", "NNodes": "4"} | fields
    return list(row.values())


def tacc_log(*rows: list[str], count: int | None = None) -> str:
    number = len(rows) if count is None else count
    rule = "\t".join("-" * len(name) for name in TACC_COLUMNS)
    body = ["\t".join(row) for row in rows]
    return "\n".join([str(number), "\t".join(TACC_COLUMNS), rule, *body, ""])


def test_tacc_rows_are_in_austin_time_and_their_state_is_inferred(tmp_path: Path) -> None:
    nine, half, ten = "2023-01-10T09:00:00", "2023-01-10T09:30:00", "2023-01-10T10:00:00"
    trace = opened(
        tmp_path,
        tacc_log(
            tacc_row(1, nine, half),
            tacc_row(2, nine, ten),
            tacc_row(3, nine, half, ExitCode="1:0"),
            tacc_row(4, nine, nine),
        ),
    )
    assert (trace.format, trace.total) == (TraceFormat.TACC, 4)
    found = read_jobs(trace)
    assert [job.state for job in found] == [
        JobState.COMPLETED,
        JobState.TIMEOUT,
        JobState.FAILED,
        JobState.CANCELLED,
    ]
    assert found[0] == Job(
        job_id=found[0].job_id,
        submit=1673359200,
        state=JobState.COMPLETED,
        user="00007",
        name="dimer",
        priority=17,
        start=1673362800,
        end=1673364600,
        time_limit_s=3600,
        nodes=4,
        exit_code="0:0",
    )
    assert (found[3].start, found[3].end) == (None, 1673362800)


def test_the_stray_field_after_the_uid_is_dropped(tmp_path: Path) -> None:
    row = tacc_row(1, "2023-01-10T09:00:00", "2023-01-10T09:30:00")
    trace = opened(tmp_path, tacc_log([*row[:3], "stray", *row[3:]], [*row, "a", "b"]))
    (job,) = read_jobs(trace)
    assert job.nodes == 4
    assert trace.tally.refused == {"not 10 fields": 1}


def test_a_tacc_log_with_fewer_rows_than_it_says_is_truncated(tmp_path: Path) -> None:
    row = tacc_row(1, "2023-01-10T09:00:00", "2023-01-10T09:30:00")
    with pytest.raises(InputError, match="truncated: its first line says 3 rows and it has 1"):
        read_jobs(opened(tmp_path, tacc_log(row, count=3)))


def test_a_tacc_header_that_lacks_columns_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"its header has no Submit, NNodes"):
        opened(tmp_path, "1\nJobID\tUID\tStart\tEnd\tTimelimitRaw\tExitCode\n", TraceFormat.TACC)
