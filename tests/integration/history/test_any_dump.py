"""Whatever fields sacct was asked for, the same jobs come back, or the dump says what it lacks."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.domain.job import Job
from mirage.history.formats.trace_file import RowTally, open_trace
from mirage.history.formats.trace_row import TraceFormat
from mirage.slurm.commands.sacct_record import NO_NODES, TWICE
from tests.integration.history.dumps import Ran, Written, dumps, rans

ZONES = {"epoch": None, "utc": "UTC", "berlin": "Europe/Berlin"}


def read(path: Path, written: Written) -> tuple[dict[int, Job], RowTally]:
    path.write_text(written.text, encoding="utf-8", newline="")
    with open_trace(path, timezone=ZONES[written.form]) as trace:
        assert trace.format is TraceFormat.SACCT
        found = {int(job.job_id): job for batch in trace.iter_batches() for job in batch}
    return found, trace.tally


def ran_s(job: Job) -> int | None:
    if job.elapsed_s is not None:
        return job.elapsed_s
    return None if job.start is None or job.end is None else job.end - job.start


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_same_jobs_come_back(tmp_path: Path, data: st.DataObject) -> None:
    jobs = data.draw(rans())
    written = data.draw(dumps(jobs))
    found, tally = read(tmp_path / "dump", written)
    assert tally.read == len(jobs) == tally.kept + tally.refused.total() + tally.skipped.total()
    assert not tally.refused
    assert not tally.skipped
    unsure = 0
    for job in jobs:
        got = found[job.job_id]
        assert (got.nodes, got.cpus, got.gpus) == (job.nodes, job.cpus, job.gpus), written.text
        assert (got.time_limit_s, ran_s(got)) == (job.limit_min * 60, job.ran_s), written.text
        assert (got.state, got.has_never_run) == (job.state.partition(" ")[0], False), written.text
        unsure += (got.submit, got.start, got.end) != (job.submit, job.start, job.end)
        _assert_free_text(job, got, written)
    assert unsure <= tally.assumed[TWICE], written.text
    assert written.form == "berlin" or not tally.assumed


def _assert_free_text(job: Ran, got: Job, written: Written) -> None:
    assert got.name == (job.name if "JobName" in written.columns else "")


def test_what_a_dump_lacks_is_counted_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    rows = "".join(f"{i}|COMPLETED|1700000000|1700000100|1700000200\n" for i in range(1, 6))
    path.write_text("JobIDRaw|State|Submit|Start|End\n" + rows)
    with open_trace(path) as trace:
        found = [job for batch in trace.iter_batches() for job in batch]
    assert [job.nodes for job in found] == [1] * 5
    assert trace.tally.assumed == {NO_NODES: 5}
