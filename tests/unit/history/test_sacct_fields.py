"""What a dump's fields fall back on: counts, GPUs, times, and what is said where none is left."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.domain.job import Job, JobState
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats.trace_file import TraceFile, open_trace
from mirage.history.formats.trace_row import TraceFormat
from mirage.slurm.commands import sacct_record
from tests.support.traces import read_jobs

BASE = {"JobIDRaw": "7", "State": "COMPLETED", "Submit": "1700000000"}
RAN = BASE | {"Start": "1700000100", "End": "1700003700"}


def opened(
    tmp_path: Path, *rows: dict[str, str], apart: str = "|", cluster: str | None = None
) -> TraceFile:
    path = tmp_path / "dump"
    lines = [apart.join(rows[0]), *(apart.join(row.values()) for row in rows)]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="")
    return open_trace(path, cluster=cluster)


def only(tmp_path: Path, **fields: str) -> tuple[Job, dict[str, int]]:
    trace = opened(tmp_path, RAN | fields)
    (job,) = read_jobs(trace)
    return job, dict(trace.tally.assumed)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setitem(os.environ, "TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({"AllocNodes": "3"}, 3),
        ({"AllocNodes": "0", "ReqNodes": "5"}, 5),
        ({"AllocNodes": "", "NNodes": "2"}, 2),
        ({"NNodes": "2-6"}, 2),
        ({"ReqNodes": "1K"}, 1024),
        ({"NNodes": "12K"}, 12 * 1024),
        ({"NNodes": "1M"}, 1 << 20),
        ({"NodeList": "cn[01-04,9],login1"}, 6),
        ({"NodeList": "cn1,cn1"}, 1),
        ({"NodeList": "None assigned", "ReqTRES": "cpu=8,node=4"}, 4),
        ({"AllocTRES": "", "ReqTRES": "cpu=8,node=4"}, 4),
        ({"AllocTRES": "cpu=0,node=0", "ReqNodes": "2"}, 2),
    ],
)
def test_nodes(tmp_path: Path, fields: dict[str, str], nodes: int) -> None:
    job, assumed = only(tmp_path, **fields)
    assert (job.nodes, assumed) == (nodes, {})


@pytest.mark.parametrize("fields", [{}, {"NNodes": "0"}, {"NodeList": "None assigned"}])
def test_a_node_count_that_is_nowhere_is_never_silently_one(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    job, assumed = only(tmp_path, **fields)
    assert (job.nodes, assumed) == (1, {sacct_record.NO_NODES: 1})


@pytest.mark.parametrize(
    ("fields", "cpus"),
    [
        ({"AllocCPUS": "0", "ReqCPUS": "64"}, 64),
        ({"NCPUS": "2K"}, 2048),
        ({"ReqCPUS": "1", "AllocTRES": "cpu=16"}, 16),
        ({"ReqTRES": "cpu=1.50K"}, 1536),
    ],
)
def test_cpus(tmp_path: Path, fields: dict[str, str], cpus: int) -> None:
    assert only(tmp_path, NNodes="1", **fields)[0].cpus == cpus


def test_a_count_that_sacct_has_rounded_is_told(tmp_path: Path) -> None:
    job, assumed = only(tmp_path, NNodes="1", NCPUS="1.13K")
    assert (job.cpus, assumed) == (1157, {sacct_record.ROUNDED: 1})


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"AllocGRES": "gpu:tesla:8"}, 8),
        ({"AllocGRES": "", "ReqGRES": "gpu:2"}, 6),
        ({"AllocGRES": "gpu:0", "ReqGRES": "gpu:a-100.x_2:2(S:0)"}, 6),
        ({"AllocTRES": "gres/gpu=4", "ReqGRES": "gpu:2"}, 4),
        ({"AllocTRES": "cpu=3", "ReqTRES": "gres/gpu:a100=5"}, 5),
        ({"AllocTRES": "N/A", "AllocGRES": "gpu:no_consume:1K"}, 1024),
    ],
)
def test_gpus(tmp_path: Path, fields: dict[str, str], gpus: int) -> None:
    assert only(tmp_path, NNodes="3", **fields)[0].gpus == gpus


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ("PER_NODE:gpu:4", 12),
        ("PER_NODE:license:1,gres:gpu:a100:2", 6),
        ("PER_JOB:gpu:8", 8),
        ("PER_JOB:gpu:8,PER_NODE:gpu:4,PER_TASK:gpu:1", 8),
        ("PER_JOB:license:2,PER_NODE:gpu:1", 3),
        ("PER_NODE:shard:4,PER_TASK:license:1", 0),
    ],
)
def test_gpus_as_sacct_wrote_what_was_asked_for_until_20_02(
    tmp_path: Path, asked: str, gpus: int
) -> None:
    assert only(tmp_path, NNodes="3", ReqGRES=asked)[0].gpus == gpus


@pytest.mark.parametrize("asked", ["PER_TASK:gpu:1", "PER_SOCKET:gpu:a100:2"])
def test_gpus_of_an_unknown_number_of_tasks_are_refused(tmp_path: Path, asked: str) -> None:
    trace = opened(tmp_path, RAN | {"NNodes": "3", "ReqGRES": asked})
    assert (read_jobs(trace), trace.tally.refused) == ([], {"GRES does not read": 1})
    assert only(tmp_path, NNodes="3", ReqGRES=asked, AllocGRES="gpu:6")[0].gpus == 6


def test_what_does_not_read_is_refused_by_its_reason(tmp_path: Path) -> None:
    bad = [
        {"NNodes": "two"},
        {"NNodes": "1.5"},
        {"NCPUS": "4X"},
        {"AllocGRES": "gpu:a:b:c:1"},
        {"NodeList": "cn[01-", "NNodes": "0"},
        {"ElapsedRaw": "-3"},
        {"Suspended": "a while"},
        {"UID": "root"},
    ]
    columns = {name: "" for fields in bad for name in fields} | {"NNodes": "1"}
    rows = [RAN | columns | {"JobIDRaw": str(i)} | f for i, f in enumerate(bad, start=1)]
    trace = opened(tmp_path, *rows)
    assert read_jobs(trace) == []
    assert trace.tally.refused == {
        "nodes is not a number": 2,
        "cpus is not a number": 1,
        "GRES does not read": 1,
        "node list does not read": 1,
        "negative run time": 1,
        "suspended is not a number": 1,
        "uid is not a number": 1,
    }


def test_elapsed_tells_the_end_that_no_column_has(tmp_path: Path) -> None:
    row = BASE | {"Start": "1700000100", "ElapsedRaw": "1800", "NNodes": "1"}
    (job,) = read_jobs(opened(tmp_path, row))
    assert (job.start, job.end, job.elapsed_s) == (1700000100, 1700001900, None)
    (job,) = read_jobs(opened(tmp_path, row | {"ElapsedRaw": "", "Elapsed": "1-00:00:30"}))
    assert job.end == 1700000100 + 86430
    (running,) = read_jobs(opened(tmp_path, row | {"State": "RUNNING"}))
    assert (running.end, running.elapsed_s) == (None, 1800)


def test_a_run_time_alone_is_kept(tmp_path: Path) -> None:
    row = BASE | {"NNodes": "1", "Timelimit": "1-00:00:00", "ElapsedRaw": "1800"}
    (job,) = read_jobs(opened(tmp_path, row))
    assert (job.start, job.end, job.elapsed_s, job.has_never_run) == (None, None, 1800, False)


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"])
def test_a_dump_without_starts_takes_no_job_for_one_that_never_ran(
    tmp_path: Path, state: str
) -> None:
    row = BASE | {"NNodes": "1", "State": state, "End": "1700003600"}
    trace = opened(tmp_path, row)
    assert (read_jobs(trace), len(trace.tally.refused)) == ([], 1)
    assert "ask sacct for Start or ElapsedRaw" in next(iter(trace.tally.refused))
    (job,) = read_jobs(opened(tmp_path, row | {"ElapsedRaw": "3000"}))
    assert (job.start, job.has_never_run) == (1700000600, False)
    (job,) = read_jobs(opened(tmp_path, row | {"Start": "Unknown"}))
    assert job.has_never_run


def test_a_cancelled_job_of_a_dump_without_starts_is_counted(tmp_path: Path) -> None:
    row = BASE | {"NNodes": "1", "State": "CANCELLED by 7", "End": "1700003600"}
    trace = opened(tmp_path, row)
    (job,) = read_jobs(trace)
    assert (job.has_never_run, trace.tally.assumed) == (True, {sacct_record.NO_START: 1})


def test_of_a_suspended_job_the_end_stays_and_the_run_is_told(tmp_path: Path) -> None:
    fields = {"End": "1700040100", "ElapsedRaw": "4000", "Suspended": "10:00:00"}
    job, assumed = only(tmp_path, NNodes="1", **fields)
    assert (job.end, job.elapsed_s, assumed) == (1700040100, 4000, {})


def test_a_run_longer_than_from_start_to_end_is_told(tmp_path: Path) -> None:
    job, assumed = only(tmp_path, NNodes="1", ElapsedRaw="7200")
    assert (job.elapsed_s, assumed) == (7200, {sacct_record.LONGER: 1})


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("start", "end", "elapsed_s"),
    [
        ("2023-10-29T02:10:00", "2023-10-29T02:40:00", 1800),
        ("2023-10-29T02:10:00", "2023-10-29T02:40:00", 5400),
        ("2023-10-29T02:40:00", "2023-10-29T02:10:00", 1800),
        ("2023-10-29T01:30:00", "2023-10-29T02:45:00", 8100),
        ("2023-10-29T02:45:00", "2023-10-29T05:00:00", 8100),
        ("2023-10-28T12:00:00", "2023-10-29T12:00:00", 90000),
    ],
)
def test_elapsed_settles_the_hour_that_comes_twice(
    tmp_path: Path, start: str, end: str, elapsed_s: int
) -> None:
    times = {"Submit": "2023-10-28T00:00:00", "Start": start, "End": end}
    (job,) = read_jobs(
        opened(tmp_path, RAN | times | {"ElapsedRaw": str(elapsed_s), "NNodes": "1"})
    )
    assert job.start is not None
    assert job.end is not None
    assert job.end - job.start == elapsed_s


@pytest.mark.usefixtures("berlin")
def test_of_an_hour_that_comes_twice_an_end_is_read_so_that_the_run_lies_behind_the_submission(
    tmp_path: Path,
) -> None:
    """Without Start: read as the first 02:00, the end is an hour before the run could end."""
    ran = {"End": "2023-10-29T02:00:00", "ElapsedRaw": "3600", "NNodes": "1"}
    (job,) = read_jobs(opened(tmp_path, BASE | {"Submit": "2023-10-29T02:00:00"} | ran))
    assert (job.start, job.end) == (1_698_537_600, 1_698_541_200)


def test_before_the_allocation_sacct_has_half_of_each_pair(tmp_path: Path) -> None:
    pending = BASE | {
        "State": "PENDING",
        "Start": "Unknown",
        "End": "Unknown",
        "Timelimit": "UNLIMITED",
        "AllocNodes": "0",
        "ReqNodes": "4",
        "AllocCPUS": "0",
        "ReqCPUS": "128",
        "AllocTRES": "",
        "ReqTRES": "cpu=128,gres/gpu=16,mem=4G,node=4",
        "NodeList": "None assigned",
        "ElapsedRaw": "0",
        "TimelimitRaw": "90",
    }
    (job,) = read_jobs(opened(tmp_path, pending))
    assert (job.nodes, job.cpus, job.gpus, job.memory_mib) == (4, 128, 16, 4096)
    assert (job.start, job.end, job.elapsed_s, job.time_limit_s) == (None, None, None, 5400)


def test_a_job_without_nodes_never_ran(tmp_path: Path) -> None:
    fields = {"State": "CANCELLED by 7", "Start": "1700003700", "NodeList": "None assigned"}
    assert only(tmp_path, NNodes="1", **fields)[0].start is None


def test_a_job_that_had_nodes_for_less_than_a_second_ran(tmp_path: Path) -> None:
    fields = {"State": "CANCELLED by 7", "Start": RAN["End"], "NodeList": "cn1"}
    job = only(tmp_path, NNodes="1", **fields)[0]
    assert (job.start, job.end, job.has_never_run) == (int(RAN["End"]), int(RAN["End"]), False)


@pytest.mark.parametrize("apart", ["|", ";", "\t", "^", "~", "||", "\x1f", "\x1e", "@#@", "é"])
def test_delimiters_that_read(tmp_path: Path, apart: str) -> None:
    row = RAN | {"NodeList": "cn[1-2,5]", "JobName": "a b", "User": "ann"}
    trace = opened(tmp_path, row, apart=apart)
    (job,) = read_jobs(trace)
    assert trace.format is TraceFormat.SACCT
    assert (job.nodes, job.user, job.name) == (3, "ann", "a b")


@pytest.mark.parametrize("apart", [",", ":", " ", "-", "x", "1", "=", "::", "State"])
def test_delimiters_that_stand_in_values_are_refused_in_a_sentence(
    tmp_path: Path, apart: str
) -> None:
    row = RAN | {"NNodes": "1", "ExitCode": "0:0", "UID": "11", "Timelimit": "60"}
    with pytest.raises(UnknownFormat, match=r"make|without|expected"):
        opened(tmp_path, row, apart=apart)


def test_a_dump_that_looks_like_a_tacc_log_is_none(tmp_path: Path) -> None:
    """Its columns are those that a TACC log needs, with tabs between them."""
    row = RAN | {"JobID": "7", "UID": "11", "TimelimitRaw": "60", "ExitCode": "0:0", "NNodes": "2"}
    trace = opened(tmp_path, row, apart="\t")
    assert trace.format is TraceFormat.SACCT
    assert read_jobs(trace)[0].time_limit_s == 3600


def test_rows_of_clusters_are_counted_and_others_skipped(tmp_path: Path) -> None:
    rows = [
        RAN | {"JobIDRaw": str(i), "NNodes": "1", "Cluster": name}
        for i, name in enumerate(("alpha", "beta", "Alpha", ""), start=1)
    ]
    trace = opened(tmp_path, *rows, cluster="alpha")
    assert [job.job_id for job in read_jobs(trace)] == [1, 3, 4]
    assert trace.tally.skipped == {"of another cluster": 1}
    assert trace.clusters == {"alpha": 2, "beta": 1}


def test_blank_lines_before_the_header_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_text("\n  \n" + "|".join(RAN) + "|NNodes\n" + "|".join(RAN.values()) + "|2\n")
    assert read_jobs(open_trace(path))[0].nodes == 2


@pytest.mark.parametrize(
    "row",
    [
        "4101|ann|cpu|COMPLETED|2015-06-26T13:57:00|2015-07-01T02:55:50|32",
        "ann|4101|COMPLETED|1435327020|16",
    ],
)
def test_a_dump_without_a_header_says_how_to_make_one_with(tmp_path: Path, row: str) -> None:
    path = tmp_path / "dump"
    path.write_text(f"{row}\n{row}\n")
    with pytest.raises(UnknownFormat, match="make it without -n"):
        open_trace(path)


def test_a_row_that_is_no_utf8_is_refused_alone(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    good = "|".join(RAN.values()) + "|1|train\n"
    bad = "8" + good[1:].replace("train", "tr\xe4in")
    path.write_bytes(("|".join(RAN) + "|NNodes|JobName\n" + good + bad).encode("latin-1"))
    trace = open_trace(path)
    assert [job.job_id for job in read_jobs(trace)] == [7]
    assert trace.tally.refused == {"not UTF-8": 1}


def test_states_and_cancelled_jobs_stay_as_they_are(tmp_path: Path) -> None:
    job, _ = only(tmp_path, NNodes="1", State="CANCELLED by 1003", Start="1700003700")
    assert (job.state, job.start) == (JobState.CANCELLED, None)
    with pytest.raises(InputError):
        open_trace(tmp_path / "nowhere")
