"""How long a job waited, and whether it ran at all: one answer wherever it is asked for."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from mirage.database.jobs import job_history, wait_sums
from mirage.database.jobs.job_times import build_never_ran, build_ready_at, build_waited_s
from mirage.database.jobs.observation_past import read_recent_jobs
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import jobs as table
from mirage.domain.job import Job, JobId, JobState, compute_ready_at
from mirage.domain.recent_history import RecentHistory
from mirage.web.api.schemas.chain_schemas import JobView
from tests.support.jobs import make_job
from tests.support.paths import MIGRATIONS

GONE = make_job(1, submit=100, start=5000, end=5000, state=JobState.CANCELLED, nodes=1)
"""As accounting tells of a job that was cancelled while it waited."""
AGAIN = Job(job_id=JobId(2), submit=1000, eligible=400, start=1500, state=JobState.RUNNING, nodes=1)
"""Requeued: it was submitted anew, and had been eligible before."""


@pytest.fixture
def filled_cluster_id(store: Store) -> int:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        job_history.upsert_jobs(tx, cluster_id, [GONE, AGAIN])
    return cluster_id


def test_models_rules_pages_and_sums_tell_one_wait(store: Store, filled_cluster_id: int) -> None:
    with store.read() as tx:
        known = {job.job_id: job for job in job_history.list_jobs(tx, filled_cluster_id)}
        rules = job_history.read_waits(tx, filled_cluster_id, before=9000, last=9)
        models = read_recent_jobs(tx, filled_cluster_id, 9000)
    shown = {job_id: JobView.model_validate(job) for job_id, job in known.items()}
    assert (shown[JobId(1)].wait_s, shown[JobId(2)].wait_s) == (None, 500)
    assert (shown[JobId(1)].start, known[JobId(1)].cancelled_at) == (None, 5000)
    assert (rules.start.tolist(), rules.wait_s.tolist()) == ([1500], [500])
    assert models.started[:, :2].tolist() == [[1500, 500]]
    assert RecentHistory.from_jobs([GONE, AGAIN], 9000).started[:, :2].tolist() == [[1500, 500]]
    with store.begin() as tx:
        wait_sums.sum_day(tx, filled_cluster_id, 0, [0, 3600])
        cells = wait_sums.read_cells(tx, filled_cluster_id, 86400, 0, 86400)
    assert cells.jobs.tolist() == [1]


INSTANTS = st.integers(min_value=1, max_value=9)
RECORDS = st.builds(
    make_job,
    job_id=st.integers(min_value=1, max_value=3).map(JobId),
    submit=st.integers(min_value=1, max_value=2),
    state=st.sampled_from(JobState),
    eligible=st.none() | INSTANTS,
    start=st.none() | INSTANTS,
    end=st.none() | INSTANTS,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_sql_says_what_a_job_says(store: Store, records: Sequence[Job]) -> None:
    """Also of records that were merged from several."""
    columns = (
        table.c.start,
        table.c.cancelled_at,
        build_ready_at(),
        build_waited_s(),
        build_never_ran(),
    )
    with store.begin() as tx:
        tx.execute(text("DELETE FROM jobs"))
        cluster_id = clusters.ensure_cluster(tx, "lab")
        for record in records:
            job_history.upsert_jobs(tx, cluster_id, [record])
        query = select(*columns).order_by(table.c.job_id.desc(), table.c.submit.desc())
        told = [tuple(row) for row in tx.execute(query)]
        kept = job_history.list_jobs(tx, cluster_id)
    assert told == [
        (
            job.start,
            job.cancelled_at,
            compute_ready_at(job.submit, job.eligible),
            job.wait_s,
            job.has_never_run,
        )
        for job in kept
    ]


OLD: Sequence[tuple[str, int | None, int | None, int | None, int | None]] = (
    # state, start and end as they were stored; start and cancelled_at as they are to be
    ("CANCELLED", 5000, 5000, None, 5000),
    ("DEADLINE", 5000, 5000, None, 5000),
    ("CANCELLED", None, 5000, None, 5000),
    ("CANCELLED", 4000, 5000, 4000, None),
    ("FAILED", 5000, 5000, 5000, None),
    ("COMPLETED", None, 5000, None, None),
    ("RUNNING", 4000, None, 4000, None),
    ("PENDING", None, None, None, None),
)


@pytest.mark.parametrize(("state", "start", "end", "began", "cancelled_at"), OLD)
def test_rows_of_before_are_brought_to_it(
    empty_database_url: str,
    state: str,
    start: int | None,
    end: int | None,
    began: int | None,
    cancelled_at: int | None,
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0130")
    words = ["account", "partition", "qos", "name", "reason", "exit_code", "dependency"]
    words += ["user", "node_list", "comment", "submit_line"]
    row: dict[str, Any] = dict.fromkeys(words, "")
    row |= {"cluster_id": 1, "job_id": 7, "submit": 100, "nodes": 1, "cpus": 1, "gpus": 0}
    row |= {"array": False, "state": state, "start": start, "end": end}
    names = ", ".join(f'"{name}"' for name in row)
    values = ", ".join(f":{name}" for name in row)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        tx.execute(text("INSERT INTO clusters (id, name) VALUES (1, 'lab')"))
        tx.execute(text(f"INSERT INTO jobs ({names}) VALUES ({values})"), row)  # noqa: S608
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        found = tx.execute(select(table.c.start, table.c.end, table.c.cancelled_at)).one()
        (job,) = job_history.list_jobs(tx, 1)
    assert tuple(found) == (began, end, cancelled_at)
    assert (job.start, job.end, job.cancelled_at) == tuple(found)
