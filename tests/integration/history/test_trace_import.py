"""Taking a trace file into the history: counted, idempotent, and completed after a failure."""

from contextlib import closing
from pathlib import Path

import pytest

from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.errors import InputError, SchemaMismatch
from mirage.history.formats.trace_file import open_trace
from mirage.history.ingest.trace_import import ImportReport, import_trace
from mirage.slurm.commands.sacct_record import NO_NODES
from tests.support.paths import CHECKOUT

LS6 = CHECKOUT.parent / "shared/traces/tacc-ls6-a100.parquet"
HEADER = "JobID|Submit|Start|End|State"
GOOD_BAD_STEP = (("1", "PENDING"), ("x", "PENDING"), ("1.batch", "RUNNING"))


def dump(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEADER, *rows, ""]), encoding="utf-8")
    return path


def ingest(store: Store, path: Path) -> ImportReport:
    with open_trace(path) as trace:
        return import_trace(store, "ls6", trace)


def test_the_second_time_changes_nothing(store: Store, tmp_path: Path) -> None:
    path = dump(
        tmp_path / "dump",
        "1|1700000000|1700000100|1700000200|COMPLETED",
        "2|1700000000|1700000100|Unknown|RUNNING",
        "2.batch|1700000000|1700000100|Unknown|RUNNING",
        "3|1700000000|1700000100|1700000050|FAILED",
    )
    expected = ImportReport(
        read=4,
        added=2,
        updated=0,
        unchanged=0,
        refused=1,
        skipped=1,
        refused_why={"end before start": 1},
        skipped_why={"job step": 1},
        assumed={NO_NODES: 2},
        first={NO_NODES: 2, "job step": 4, "end before start": 5},
    )
    assert ingest(store, path) == expected
    again = ingest(store, path)
    assert (again.added, again.updated, again.unchanged) == (0, 0, 2)


def test_a_file_is_useless_when_rows_were_refused_and_none_was_taken(
    store: Store, tmp_path: Path
) -> None:
    good, bad, step = (f"{i}|1700000000|Unknown|Unknown|{state}" for i, state in GOOD_BAD_STEP)
    useless = {
        rows: ingest(store, dump(tmp_path / "dump", *rows)).is_useless
        for rows in ((bad,), (bad, step), (step,), (), (good,), (good, bad), (bad, good))
    }
    assert [rows for rows, is_so in useless.items() if is_so] == [(bad,), (bad, step)]


def test_a_later_dump_updates_what_has_ended_and_an_older_one_does_not_undo_it(
    store: Store, tmp_path: Path
) -> None:
    early = dump(tmp_path / "early", "1|1700000000|1700000100|Unknown|RUNNING")
    late = dump(tmp_path / "late", "1|1700000000|1700000100|1700000200|FAILED")
    assert ingest(store, early).added == 1
    assert ingest(store, late).updated == 1
    assert ingest(store, early).unchanged == 1
    with store.read() as tx:
        (job,) = job_history.list_jobs(tx, 1)
    assert job.end == 1700000200


def test_clusters_are_apart(store: Store, tmp_path: Path) -> None:
    path = dump(tmp_path / "dump", "1|1700000000|Unknown|Unknown|PENDING")
    ingest(store, path)
    with open_trace(path) as trace:
        assert import_trace(store, "theta", trace).added == 1


def test_after_a_file_cut_short_the_whole_file_completes_the_work(
    store: Store, tmp_path: Path
) -> None:
    rows = [f"{i}|{1700000000 + i}|Unknown|Unknown|CANCELLED" for i in range(1, 9001)]
    whole = dump(tmp_path / "whole", *rows)
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-30])
    with pytest.raises(InputError, match="cut is truncated: its last line"):
        ingest(store, cut)
    with store.read() as tx:
        assert job_history.count_jobs(tx, clusters_id(store)) == 8000, "two whole batches"
    report = ingest(store, whole)
    assert (report.read, report.added, report.unchanged) == (9000, 1000, 8000)


def clusters_id(store: Store) -> int:
    with store.begin() as tx:
        return clusters.ensure_cluster(tx, "ls6")


def test_progress_is_told_after_each_batch(store: Store, tmp_path: Path) -> None:
    rows = [f"{i}|{1700000000 + i}|Unknown|Unknown|CANCELLED" for i in range(1, 9001)]
    told: list[int] = []
    with open_trace(dump(tmp_path / "dump", *rows)) as trace:
        import_trace(store, "ls6", trace, lambda t: told.append(t.tally.read))
    assert told == [4000, 8000, 9000]


def test_a_database_without_schema_is_told_apart(tmp_path: Path) -> None:
    path = dump(tmp_path / "dump", "1|1700000000|Unknown|Unknown|PENDING")
    with (
        closing(Store(f"sqlite:///{tmp_path / 'new.db'}")) as store,
        pytest.raises(SchemaMismatch, match="mirage db upgrade"),
    ):
        ingest(store, path)


@pytest.mark.skipif(not LS6.exists(), reason=f"the Lonestar6 trace is not at {LS6}")
def test_the_lonestar6_trace_twice_adds_nothing_the_second_time(store: Store) -> None:
    first = ingest(store, LS6)
    assert first.added == first.read > 10_000
    assert first.refused == 0
    second = ingest(store, LS6)
    assert (second.added, second.updated, second.refused) == (0, 0, 0)
    assert second.unchanged == second.read == first.read
