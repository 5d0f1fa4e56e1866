"""Trace files: told apart by content, counted row by row, refused in one sentence when broken."""

import gzip
from pathlib import Path

import pytest

from mirage.domain.job import JobState
from mirage.errors import InputError, UnknownFormat
from mirage.history.formats import trace_file
from mirage.history.formats.trace_file import open_trace
from mirage.history.formats.trace_row import TraceFormat
from tests.support.traces import read_jobs

SACCT = """\
JobIDRaw|User|Partition|State|Submit|Start|End|NNodes
101|ann|gpu|COMPLETED|1700000000|1700000100|1700003700|2
102|ben|gpu|TIMEOUT|1700000010|1700000200|1700007400|1
103|ben|gpu|PENDING|1700000020|Unknown|Unknown|1
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_format_is_found_from_the_content(tmp_path: Path) -> None:
    swf = "; UnixStartTime: 1700000000\n" + " ".join(["1"] * 18) + "\n"
    tacc = "0\nJobID\tJobName\tUID\tStart\tSubmit\tEnd\tTimelimitRaw\tExitCode\tNNodes\n---\t---\n"
    texts = (SACCT, swf, tacc, " ".join(["7"] * 18))
    found = []
    for text in texts:
        with open_trace(write(tmp_path / "trace", text)) as trace:
            found.append(trace.format)
    assert found == [TraceFormat.SACCT, TraceFormat.SWF, TraceFormat.TACC, TraceFormat.SWF]


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "dump.gz"
    path.write_bytes(gzip.compress(SACCT.encode()))
    trace = open_trace(path)
    assert [job.job_id for job in read_jobs(trace)] == [101, 102, 103]
    assert trace.share == 1.0


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(b"\xef\xbb\xbf" + SACCT.replace("\n", "\r\n").encode())
    assert read_jobs(open_trace(path))[0].nodes == 2


def test_batches_are_of_the_size_asked_for(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "dump", SACCT))
    with trace:
        assert [len(batch) for batch in trace.iter_batches(rows=2)] == [2, 1]
    assert (trace.tally.read, trace.tally.kept) == (3, 3)


def test_rows_that_contradict_themselves_are_refused_with_reason_and_line(tmp_path: Path) -> None:
    rows = [
        "1|a|gpu|COMPLETED|1700000000|1700000100|1700000050|1",
        "2|a|gpu|COMPLETED|1700000000|1699990000|1700000050|1",
        "x|a|gpu|COMPLETED|1700000000|1700000100|1700000200|1",
        "|a|gpu|COMPLETED|1700000000|1700000100|1700000200|1",
        "5|a|gpu|COMPLETED|Unknown|1700000100|1700000200|1",
        "6|a|gpu||1700000000|1700000100|1700000200|1",
        "7|a|gpu|COMPLETED|yesterday|1700000100|1700000200|1",
        "8|a|gpu|COMPLETED|1700000000|1700000100|1700000200|many",
        "9|a|gpu|COMPLETED|1700000000000|Unknown|Unknown|1",
        "10|a|gpu",
        "11|a|gpu|COMPLETED|1700000000|1700000100|1700000200|-4",
        "12|a|gpu|COMPLETED|1700000000|1699999990|1700000200|1",
    ]
    header = SACCT.splitlines()[0]
    trace = open_trace(write(tmp_path / "dump", "\n".join([header, *rows, ""])))
    assert [job.job_id for job in read_jobs(trace)] == [12], "ten seconds are two daemons' clocks"
    assert trace.tally.refused == {
        "end before start": 1,
        "start before submit": 1,
        "job id is not a number": 1,
        "no job id": 1,
        "no submit time": 1,
        "no state": 1,
        "submit is not a time in epoch seconds or as 2023-03-01T12:00:00": 1,
        "nodes is not a number": 1,
        "submit is no time in epoch seconds": 1,
        "fewer than 8 fields": 1,
        "nodes is out of range": 1,
    }
    assert trace.tally.first["end before start"] == 2
    assert trace.tally.first["fewer than 8 fields"] == 11
    assert trace.tally.read == trace.tally.kept + trace.tally.refused.total()


def test_of_two_rows_of_one_job_the_one_with_the_end_counts(tmp_path: Path) -> None:
    header = SACCT.splitlines()[0]
    running = "1|a|gpu|RUNNING|1700000000|1700000100|Unknown|1"
    ended = "1|a|gpu|FAILED|1700000000|1700000100|1700000200|1"
    dump = "\n".join([header, running, running, ended, running, ended, ""])
    trace = open_trace(write(tmp_path / "dump", dump))
    assert [job.state for job in read_jobs(trace)] == [JobState.FAILED]
    assert trace.tally.kept == 1
    assert trace.tally.refused == {"same job id and submit time as another row": 4}


def test_what_a_user_wrote_into_a_name_takes_no_row_from_another_user(tmp_path: Path) -> None:
    """sacct prints the newline in bob's name as it stands; alice's row is first."""
    header = "JobIDRaw|User|Partition|State|Submit|Start|End|NNodes|JobName"
    alices = "1|alice|gpu|RUNNING|1700000000|1700000100|Unknown|1|train"
    forged = "1|bob|gpu|COMPLETED|1700000000|1700000100|1700000200|512|mine"
    bobs = f"2|bob|gpu|RUNNING|1700000000|1700000100|Unknown|1|x\n{forged}"
    trace = open_trace(write(tmp_path / "dump", "\n".join([header, alices, bobs, ""])))
    found = [(job.job_id, job.user, job.nodes) for job in read_jobs(trace)]
    assert found == [(1, "alice", 1), (2, "bob", 1)]
    assert trace.tally.refused == {trace_file.OTHER_USER: 1}


def test_a_job_id_used_again_after_a_purge_is_another_job(tmp_path: Path) -> None:
    header = SACCT.splitlines()[0]
    rows = [f"1|a|gpu|FAILED|17{i}0000000|Unknown|Unknown|1" for i in range(2)]
    trace = open_trace(write(tmp_path / "dump", "\n".join([header, *rows, ""])))
    assert len(read_jobs(trace)) == 2


def test_a_header_without_rows_is_a_dump_of_no_jobs(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "dump", SACCT.splitlines()[0] + "\n"))
    assert read_jobs(trace) == []


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_says_what_was_expected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "dump").write_bytes(content)
    with pytest.raises(InputError, match=r"dump is empty: one of: .*sacct -P.* expected"):
        open_trace(tmp_path / "dump")
    with pytest.raises(InputError, match=r"dump is empty: parquet with .* expected"):
        open_trace(tmp_path / "dump", TraceFormat.PARQUET)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: there is no such file"):
        open_trace(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a directory: a trace file is expected"):
        open_trace(tmp_path)


@pytest.mark.parametrize("content", [b"hello\nworld\n", b"\x00\x01\x02" * 50, b'{"jobs": []}\n'])
def test_what_no_reader_knows_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UnknownFormat, match="one of: the output of sacct"):
        open_trace(tmp_path / "f")


def test_a_gzip_file_cut_short_is_told_after_its_good_rows(tmp_path: Path) -> None:
    rows = "".join(
        f"{i}|a|gpu|FAILED|{1700000000 + i * 7919 % 99991}|||1\n" for i in range(1, 9999)
    )
    packed = gzip.compress((SACCT.splitlines()[0] + "\n" + rows).encode())
    (tmp_path / "dump.gz").write_bytes(packed[: len(packed) // 2])
    trace = open_trace(tmp_path / "dump.gz")
    with pytest.raises(InputError, match="truncated: its gzip data ends in the middle"):
        read_jobs(trace)
    assert trace.tally.kept > 1000


def test_damaged_gzip_is_told(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(SACCT.encode()))
    packed[15] ^= 0xFF
    (tmp_path / "dump.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"damaged gzip|truncated"):
        read_jobs(open_trace(tmp_path / "dump.gz"))


def test_a_last_line_cut_short_is_told(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "dump", SACCT[: SACCT.rindex("PENDING")]))
    with pytest.raises(InputError, match=r"truncated: its last line, 4, is cut short \(fewer"):
        read_jobs(trace)
    assert trace.tally.read == 2


def test_a_whole_last_line_needs_no_newline(tmp_path: Path) -> None:
    assert len(read_jobs(open_trace(write(tmp_path / "dump", SACCT.rstrip())))) == 3


def test_an_unknown_time_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no time zone 'Mars/Base'"):
        open_trace(write(tmp_path / "dump", SACCT), timezone="Mars/Base")
