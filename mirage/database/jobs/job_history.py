"""Stores the job history, merged from every source, and reads it as waits and pages.

Plans are not stored: `Job.planned_start` and `Job.expected_end` are no columns.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from sqlalchemy import Integer, Row, and_, bindparam, func, or_, select, tuple_, update
from sqlalchemy import insert as plain_insert

from mirage.database.access.row_access import match_own_jobs
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.jobs.job_times import build_waited_s
from mirage.database.jobs.wait_marks import mark_hours
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import clusters, jobs
from mirage.database.schema.time_filter import filter_within
from mirage.domain.callers.caller import OwnRows
from mirage.domain.decision import Waits
from mirage.domain.job import Job, JobId, JobState, has_not_run
from mirage.domain.snapshot import UNKNOWN

_CHUNK = 5000
"""Rows merged at a time: well within the number of parameters SQLite takes (32766)."""

_FIELDS = tuple(c.name for c in jobs.columns if c.name != "cluster_id")
_Values = tuple[Any, ...]
_Key = tuple[int, int]

_values_of = attrgetter(*_FIELDS)
_WAITED = ("start", "eligible", "partition", "nodes", "time_limit_s")
_waited = itemgetter(*(_FIELDS.index(n) for n in _WAITED))
"""The columns by which the sums of waits count a row."""
_JOB_ID, _SUBMIT, _STATE = (_FIELDS.index(n) for n in ("job_id", "submit", "state"))
_START, _END = _FIELDS.index("start"), _FIELDS.index("end")
_CANCELLED, _NODE_LIST = _FIELDS.index("cancelled_at"), _FIELDS.index("node_list")
_GPUS = _FIELDS.index("gpus")

_COUNTS = frozenset({"nodes", "cpus", "gpus"})
# The value of each field that stands for "not known", besides None.
_UNKNOWN: _Values = tuple(
    0 if n in _COUNTS else False if n == "array" else None if jobs.c[n].nullable else ""
    for n in _FIELDS
)

_RANK = {
    s.value: 3 if s.has_ended else 2 if s.is_running else 1 if s.is_waiting else 0 for s in JobState
}
_WAITING_RANK, _RUNNING_RANK, _ENDED_RANK = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCounts:
    """Counts of a merge: read = added + updated + unchanged. Several records of one job are one
    row."""

    read: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0

    def __add__(self, other: "MergeCounts") -> "MergeCounts":
        return MergeCounts(
            read=self.read + other.read,
            added=self.added + other.added,
            updated=self.updated + other.updated,
            unchanged=self.unchanged + other.unchanged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A choice of jobs; empty fields do not filter."""

    partition: str = ""
    user: str = ""
    uid: int | None = None
    account: str = ""
    qos: str = ""
    state: JobState | None = None
    since: int | None = None
    """Jobs that were submitted at this instant or later."""
    until: int | None = None
    """Jobs that were submitted before this instant."""
    own: OwnRows | None = None
    """Only jobs of this user, and of the accounts that the user coordinates."""


def upsert_jobs(tx: Transaction, cluster_id: int, records: Iterable[Job]) -> MergeCounts:
    """Merge records into the history; a record that says nothing new changes nothing.

    Of two records of a job the one further on (waiting, running, ended; then the later end) wins.
    Between equals the newer record wins, but an ended one stays. The losing record fills the fields
    that the winner does not know.
    """
    # On PostgreSQL this allows one merge a cluster at a time. SQLite has one writer anyhow.
    tx.execute(
        select(clusters.c.id).where(clusters.c.id == cluster_id).with_for_update(key_share=True)
    )
    total = MergeCounts()
    rest = iter(records)
    while chunk := list(islice(rest, _CHUNK)):
        total += _upsert_chunk(tx, cluster_id, chunk)
    if total.added or total.updated:
        changes.record_change(tx, cluster_id, Topic.QUEUE)
    return total


def read_waits(
    tx: Transaction, cluster_id: int, partition: str = "", *, before: int, last: int
) -> Waits:
    """List the last jobs that started at or before that instant, oldest first.

    "" is all partitions, "a,b" is two.
    """
    parameters: dict[str, Any] = {"cluster_id": cluster_id, "before": before, "last": last}
    query = _SELECT_WAITS
    if partition:
        query = _SELECT_PARTITION_WAITS
        parameters["partitions"] = partition.split(",")
    values = chain.from_iterable(tx.execute(query, parameters).all())
    rows = np.fromiter(values, dtype=np.int64).reshape(-1, 4)
    start, wait_s, nodes, time_limit_s = rows[::-1].T
    return Waits(start=start, wait_s=wait_s, nodes=nodes, time_limit_s=time_limit_s)


def list_jobs(
    tx: Transaction,
    cluster_id: int,
    where: JobFilter | None = None,
    *,
    after: tuple[int, int] | None = None,
    limit: int = 100,
) -> list[Job]:
    """List jobs, highest id first. `after` is (job id, submit) of the last job of the page
    before."""
    criteria = where or JobFilter()
    state = None if criteria.state is None else criteria.state.value
    equal = {"partition": criteria.partition, "user": criteria.user, "state": state}
    equal |= {"account": criteria.account, "qos": criteria.qos}
    conditions = [jobs.c.cluster_id == cluster_id, *filter_within(jobs.c.submit, criteria)]
    conditions += [jobs.c[n] == v for n, v in equal.items() if v]
    if criteria.uid is not None:
        conditions.append(jobs.c.uid == criteria.uid)
    if criteria.own is not None:
        conditions.append(match_own_jobs(criteria.own))
    if after is not None:
        conditions.append(tuple_(jobs.c.job_id, jobs.c.submit) < tuple_(*after))
    query = (
        _select_all_fields()
        .where(and_(*conditions))
        .order_by(jobs.c.job_id.desc(), jobs.c.submit.desc())
        .limit(limit)
    )
    return [_build_job(row) for row in tx.execute(query)]


def read_jobs_submitted_since(
    tx: Transaction, cluster_id: int, since: int, now: int
) -> Iterator[Job]:
    """Read the jobs submitted in (since, now], requeued records included. They are built when they
    are asked for, which takes ten times as long as to read them."""
    query = _select_all_fields().where(
        jobs.c.cluster_id == cluster_id,
        # Submissions have no index, ends have.
        or_(jobs.c.end.is_(None), jobs.c.end > since),
        jobs.c.submit > since,
        jobs.c.submit <= now,
    )
    return map(_build_job, tx.execute(query).all())


def iter_jobs(tx: Transaction, cluster_id: int, since: int, batch: int) -> Iterator[list[Job]]:
    """Yield the jobs submitted at `since` or later, by submission and id, read `batch` at a
    time."""
    key = (jobs.c.submit, jobs.c.job_id)
    after: tuple[int, int] = (since, -1)
    while True:
        query = _select_all_fields().where(
            jobs.c.cluster_id == cluster_id, tuple_(*key) > tuple_(*after)
        )
        rows = [_build_job(row) for row in tx.execute(query.order_by(*key).limit(batch))]
        if not rows:
            return
        yield rows
        after = rows[-1].submit, rows[-1].job_id


def read_last_submission(tx: Transaction, cluster_id: int) -> int | None:
    query = select(func.max(jobs.c.submit)).where(jobs.c.cluster_id == cluster_id)
    submit: int | None = tx.scalar(query)
    return submit


def read_submit_lines(
    tx: Transaction, cluster_id: int, keys: Collection[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return the command that each of these jobs was submitted with, by (job id, submit).

    The command comes from accounting. Jobs whose command is not known are left out.
    """
    query = select(jobs.c.job_id, jobs.c.submit, jobs.c.submit_line).where(
        jobs.c.cluster_id == cluster_id,
        jobs.c.submit_line != "",
        # The job ids alone as well: with the pairs only, SQLite reads every job.
        jobs.c.job_id.in_({job_id for job_id, _ in keys}),
        tuple_(jobs.c.job_id, jobs.c.submit).in_(keys),
    )
    return {(row.job_id, row.submit): row.submit_line for row in tx.execute(query)}


def count_jobs(tx: Transaction, cluster_id: int) -> int:
    query = select(func.count()).select_from(jobs).where(jobs.c.cluster_id == cluster_id)
    return tx.execute(query).scalar_one()


def _upsert_chunk(tx: Transaction, cluster_id: int, records: list[Job]) -> MergeCounts:
    merged_by_key: dict[_Key, _Values] = {}
    for record in records:
        values = _build_values(record)
        key = (values[_JOB_ID], values[_SUBMIT])
        earlier = merged_by_key.get(key)
        merged_by_key[key] = values if earlier is None else _merge_values(earlier, values)
    stored = _read_stored(tx, cluster_id, merged_by_key)
    added = [values for key, values in merged_by_key.items() if key not in stored]
    updated = []
    for key, row in stored.items():
        merged = _merge_values(row, merged_by_key[key])
        if merged != row:
            updated.append(merged)
    if added:
        tx.execute(plain_insert(jobs), [dict(_name_values(cluster_id, v)) for v in added])
    if updated:
        tx.execute(
            _UPDATE, [{f"new_{n}": v for n, v in _name_values(cluster_id, u)} for u in updated]
        )
    mark_hours(tx, cluster_id, _list_changed_starts(added, updated, stored))
    changed = len(added) + len(updated)
    return MergeCounts(
        read=len(records),
        added=len(added),
        updated=len(updated),
        unchanged=len(records) - changed,
    )


def _list_changed_starts(
    added: list[_Values], updated: list[_Values], stored: dict[_Key, _Values]
) -> Iterator[int]:
    """List the starts of jobs that the sums of waits now count differently.

    These are the starts before the merge and after it.
    """
    before_and_after = ((stored[row[_JOB_ID], row[_SUBMIT]], row) for row in updated)
    changed = (pair for pair in before_and_after if _waited(pair[0]) != _waited(pair[1]))
    rows = chain(added, chain.from_iterable(changed))
    return (row[_START] for row in rows if row[_START] is not None)


def _read_stored(tx: Transaction, cluster_id: int, keys: Collection[_Key]) -> dict[_Key, _Values]:
    """Return the stored rows of the jobs with these keys."""
    ids = list({job_id for job_id, _ in keys})
    query = _select_all_fields().where(jobs.c.cluster_id == cluster_id, jobs.c.job_id.in_(ids))
    rows = (tuple(row) for row in tx.execute(query))
    keyed = (((row[_JOB_ID], row[_SUBMIT]), row) for row in rows)
    return {key: row for key, row in keyed if key in keys}


def _build_values(job: Job) -> _Values:
    """Return the values of a record, with plain text for its state. A completing job has not ended.
    For an unknown state, neither start nor end is stored."""
    values = list(_values_of(job))
    values[_STATE] = state = job.state.value
    values[_GPUS] = UNKNOWN if job.gpus is None else job.gpus
    rank = _RANK[state]
    if rank < _ENDED_RANK:
        values[_END] = values[_CANCELLED] = None
    if rank < _RUNNING_RANK:
        values[_START] = None
    return tuple(values)


def _merge_values(stored: _Values, new: _Values) -> _Values:
    if new == stored:
        return stored
    if _rank_progress(new) > _rank_progress(stored) or (
        _rank_progress(new) == _rank_progress(stored) and _RANK[new[_STATE]] < _ENDED_RANK
    ):
        first, second = new, stored
    else:
        first, second = stored, new
    merged = [
        b if a is None or a == unknown else a
        for a, b, unknown in zip(first, second, _UNKNOWN, strict=True)
    ]
    # If one record's GPUs could not be read, the other record may have the number.
    if merged[_GPUS] == UNKNOWN:
        merged[_GPUS] = max(stored[_GPUS], new[_GPUS]) or UNKNOWN
    # One record may have seen the job run where the other did not.
    state, end, nodes = (merged[i] for i in (_STATE, _END, _NODE_LIST))
    never_ran = merged[_START] is None and has_not_run(JobState(state), None, end, nodes)
    merged[_CANCELLED] = end if never_ran else None
    return tuple(merged)


def _rank_progress(values: _Values) -> tuple[int, int, int]:
    rank = _RANK[values[_STATE]]
    if rank < _ENDED_RANK:
        return rank, 0, 0
    end, start = values[_END], values[_START]
    return rank, UNKNOWN if end is None else end, UNKNOWN if start is None else start


def _name_values(cluster_id: int, values: _Values) -> Iterator[tuple[str, Any]]:
    yield "cluster_id", cluster_id
    yield from zip(_FIELDS, values, strict=True)


def _select_all_fields() -> Any:
    return select(*(jobs.c[n] for n in _FIELDS))


def _build_job(row: Row[Any]) -> Job:
    fields = dict(row._mapping)  # noqa: SLF001 - public in SQLAlchemy despite its name
    fields |= {"state": JobState(fields["state"]), "job_id": JobId(fields["job_id"])}
    fields["gpus"] = None if fields["gpus"] == UNKNOWN else fields["gpus"]
    return Job(**fields)


_KEY_COLUMNS = ("cluster_id", "job_id", "submit")
_UPDATE = (
    update(jobs)
    .where(*(jobs.c[n] == bindparam(f"new_{n}") for n in _KEY_COLUMNS))
    .values({n: bindparam(f"new_{n}") for n in _FIELDS if n not in _KEY_COLUMNS})
)
_SELECT_WAITS = (
    select(
        *(jobs.c.start, build_waited_s(), jobs.c.nodes),
        func.coalesce(jobs.c.time_limit_s, UNKNOWN),
    )
    .where(jobs.c.cluster_id == bindparam("cluster_id"), jobs.c.start <= bindparam("before"))
    .order_by(jobs.c.start.desc(), jobs.c.job_id.desc())
    .limit(bindparam("last", type_=Integer))
)
_SELECT_PARTITION_WAITS = _SELECT_WAITS.where(
    jobs.c.partition.in_(bindparam("partitions", expanding=True))
)
