"""`mirage ingest` as a process: its counts, and the message and code for bad input."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.slurm.commands.sacct_record import NO_NODES
from tests.support.mirage_process import Answer, run
from tests.support.paths import CHECKOUT

LS6 = CHECKOUT.parent / "shared/traces/tacc-ls6-a100.parquet"
DUMP = """\
JobID|User|Submit|Start|End|State
1|ann|1700000000|1700000100|1700000200|COMPLETED
2|ann|1700000000|1700000300|1700000200|COMPLETED
x|ann|1700000000|1700000300|1700000400|COMPLETED
3|ann|1700000000|1700000300
4.batch|ann|1700000000|1700000300|1700000400|COMPLETED
"""


@pytest.fixture
def database(sqlite_file: Path) -> str:
    return f"sqlite:///{sqlite_file}"


def ingest(*args: str | Path, database: str) -> Answer:
    words = ("ingest", "--cluster", "ls6", *map(str, args))
    return run(*words, cwd=CHECKOUT, MIRAGE_DATABASE_URL=database, COLUMNS="120", TZ="UTC")


def refused(path: Path, *args: str, database: str) -> str:
    """The one sentence on standard error of an ingest that ends with code 2."""
    done = ingest(path, *args, database=database)
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    (line,) = done.err.strip().splitlines()
    return line


def test_counts_and_reasons_as_json_and_as_a_table(tmp_path: Path, database: str) -> None:
    path = tmp_path / "dump.psv"
    path.write_text(DUMP)
    done = ingest(path, "--json", database=database)
    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "read": 5,
        "added": 1,
        "updated": 0,
        "unchanged": 0,
        "refused": 3,
        "skipped": 1,
        "refused_why": {
            "end before start": 1,
            "job id is not a number": 1,
            "fewer than 6 fields": 1,
        },
        "skipped_why": {"job step": 1},
        "assumed": {NO_NODES: 1},
        "first": {
            NO_NODES: 2,
            "end before start": 3,
            "job id is not a number": 4,
            "fewer than 6 fields": 5,
            "job step": 6,
        },
    }
    again = ingest(path, "--format", "sacct", database=database)
    assert again.code == 0, again.err
    for row in (("read", "5"), ("added", "0"), ("unchanged", "1"), ("end before start", "line 3")):
        assert any(all(word in line for word in row) for line in again.out.splitlines())


WARNING = (
    "mirage: warning: {}: 3 of 5 rows were refused, all others are stored: "
    "end before start (1), job id is not a number (1), fewer than 6 fields (1)\n"
)


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_rows_refused_beside_rows_taken_are_a_warning(
    tmp_path: Path, database: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "dump.psv"
    path.write_text(DUMP)
    for _ in range(2):
        done = ingest(path, *words, database=database)
        # Nothing else: no progress where there is no terminal.
        assert (done.code, done.err) == (0, WARNING.format(path))


def test_rows_refused_and_none_taken_is_bad_input_with_its_counts(
    tmp_path: Path, database: str
) -> None:
    path = tmp_path / "dump.psv"
    rows = [
        *(f"{i}_1|1700000000|COMPLETED" for i in range(40)),
        *("7|yesterday|COMPLETED", "8||COMPLETED", "9|1700000000|", "4.batch|1700000000|FAILED"),
    ]
    path.write_text("\n".join(["JobID|Submit|State", *rows, ""]))
    done = ingest(path, "--json", database=database)
    assert done.code == 2
    assert done.err == (
        f"mirage: {path}: none of 44 rows could be stored: array task without JobIDRaw (40), "
        "submit is not a time in epoch seconds or as 2023-03-01T12:00:00 (1), no submit time (1), "
        "other reasons (1)\n"
    )
    counts = json.loads(done.out)
    assert (counts["read"], counts["refused"], counts["skipped"]) == (44, 43, 1)


@pytest.mark.parametrize("rows", ["", "4.batch|1700000000|FAILED\n"], ids=["none", "steps"])
def test_an_hour_without_jobs_is_nothing_to_complain_of(
    tmp_path: Path, database: str, rows: str
) -> None:
    path = tmp_path / "dump.psv"
    path.write_text(f"JobID|Submit|State\n{rows}")
    done = ingest(path, "--json", database=database)
    assert (done.code, done.err) == (0, "")


def test_a_zone_is_applied_to_local_times(tmp_path: Path, database: str) -> None:
    path = tmp_path / "dump.psv"
    path.write_text("JobID|Submit|State\n1|2023-03-01T12:00:00|PENDING\n")
    assert json.loads(ingest(path, "--json", database=database).out)["added"] == 1
    there = ingest(path, "--json", "--timezone", "America/Chicago", database=database)
    assert json.loads(there.out)["added"] == 1, "another submit time is another job"
    assert "no time zone 'Mars'" in refused(path, "--timezone", "Mars", database=database)


def test_what_is_no_file(tmp_path: Path, database: str) -> None:
    assert "there is no such file" in refused(tmp_path / "nowhere", database=database)
    assert "is a directory" in refused(tmp_path, database=database)


def test_a_dump_of_other_columns(tmp_path: Path, database: str) -> None:
    path = tmp_path / "dump.psv"
    path.write_text("Job|When\n1|2\n")
    sentence = refused(path, database=database)
    assert "among its columns (Job, When) there is no JobIDRaw, Submit, State" in sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("JobIDRaw,Submit,State\n1,2,FAILED\n", "stand apart by ',', and '|' is expected"),
        ("JobIDRaw:Submit:State\n", "`sacct -P` without --delimiter"),
        ("7|1700000000|FAILED\n", "make it without -n"),
        ('{"jobs": [{"name": "a|b"}]}\n', "is JSON"),
        ("JobID  JobName  State\n------ -------- ------\n", "make the dump with -P"),
    ],
)
def test_a_dump_that_was_made_otherwise_says_how(
    tmp_path: Path, database: str, text: str, said: str
) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(text)
    assert said in refused(path, database=database)


def test_a_history_that_no_service_reads_is_told(tmp_path: Path, database: str) -> None:
    path, config = tmp_path / "dump.psv", tmp_path / "mirage.toml"
    path.write_text(DUMP)
    config.write_text('[cluster]\nname = "gpu1"\n')
    for cluster, told in (("gpu2", True), ("gpu1", False)):
        done = ingest(path, "--cluster", cluster, "--config", config, database=database)
        assert done.code == 0
        assert ("cluster.name is gpu1" in done.err) is told


def test_a_file_of_no_known_format(tmp_path: Path, database: str) -> None:
    path = tmp_path / "notes"
    path.write_text("dear diary\n")
    assert "its first line is of no known format" in refused(path, database=database)


@pytest.mark.skipif(not LS6.exists(), reason=f"the Lonestar6 trace is not at {LS6}")
def test_the_lonestar6_trace_twice_adds_nothing_the_second_time(database: str) -> None:
    first = json.loads(ingest(LS6, "--json", database=database).out)
    second = json.loads(ingest(LS6, "--json", database=database).out)
    assert first["added"] == first["read"] > 10_000
    assert (second["added"], second["updated"]) == (0, 0)
    assert second["unchanged"] == second["read"] == first["read"]


def test_rows_of_another_cluster_are_skipped_and_told(tmp_path: Path, database: str) -> None:
    path = tmp_path / "dump.psv"
    head = "Cluster|JobIDRaw|State|Submit|Start|End|NNodes\n"
    rows = [
        f"{name}|{i}|FAILED|1700000000|1700000000|1700000060|1\n"
        for i, name in enumerate(("ls6", "east", "west", "LS6"), start=1)
    ]
    path.write_text(head + "".join(rows))
    done = ingest(path, "--json", database=database)
    told = json.loads(done.out)
    assert (told["read"], told["added"], told["skipped"]) == (4, 2, 2)
    assert told["skipped_why"] == {"of another cluster": 2}
    assert "2 of 4 rows were skipped: they belong to another cluster: east, west" in done.err
    path.write_text(head + rows[1])
    done = ingest(path, database=database)
    assert done.code == 2
    assert "1 of 1 rows belong to cluster east. Give --cluster as Slurm's ClusterName" in done.err


def test_ingest_knows_the_end_from_elapsed(tmp_path: Path, database: str) -> None:
    path = tmp_path / "dump.psv"
    columns = "JobIDRaw|State|Submit|Start|ElapsedRaw|NNodes\n"
    path.write_text(columns + "1|FAILED|1700000000|1700000000|90|1\n")
    assert ingest(path, database=database).code == 0
    with closing(Store(database)) as store, store.read() as tx:
        (job,) = next(job_history.iter_jobs(tx, 1, 0, 10))
    assert job.end == 1700000090
