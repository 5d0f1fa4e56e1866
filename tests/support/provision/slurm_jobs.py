"""Jobs as Slurm would show them, and a cluster whose answers a test writes by hand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync as link_service
from mirage.chains.explanations import describe_chain
from mirage.chains.lifecycle import Registration, register_chain
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import DecisionRow
from mirage.database.events import audit
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import metadata
from mirage.domain.chain import Chain, ChainId, ChainState, Link, Mark
from mirage.domain.decision import Mode
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.errors import ClusterRefused
from tests.support.slurm.printed_jobs import read_queue_job, read_record, reread_queue_job

CHAIN = ChainId("abcd1234")
ALICE = 1001
NOW = 1_000_000
HOUR = 3600


def comment(index: int, chain_id: ChainId = CHAIN) -> str:
    """Return a link's comment. The settings in it let links overlap: without them, no link of a
    chain that is not registered is released early."""
    return f"mirage:style=concurrent,max-overlap=4:00:00 {Mark(chain_id, index)}"


def _describe_link(index: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Describe link `index` of alice's chain: job 10 + index, an hour of one node."""
    defaults: dict[str, Any] = {
        "job_id": 10 + index,
        "submit": NOW - 100,
        "uid": ALICE,
        "user": "alice",
        "account": "ml",
        "partition": "gpu",
        "time_limit_s": HOUR,
        "comment": comment(index),
    }
    return {**defaults, **fields}


def job(index: int, state: JobState = JobState.PENDING, **fields: Any) -> Job:
    """Return link `index` of alice's chain in squeue; `fields` as `JobValues` has them."""
    return read_queue_job(state=state, **_describe_link(index, fields))


def record(index: int, state: JobState = JobState.PENDING, **fields: Any) -> Job:
    """Return link `index` of alice's chain in sacct; `fields` as `JobValues` has them."""
    return read_record(state=state, **_describe_link(index, fields))


def running(index: int, start: int = NOW - 60, **fields: Any) -> Job:
    end = start + fields.get("time_limit_s", HOUR)
    return job(index, JobState.RUNNING, start=start, **{"end": end, **fields})


def standby(index: int, **fields: Any) -> Job:
    """Return link `index` as a pending job that waits for its predecessor's end."""
    return job(index, **{"dependency": f"afterany:{9 + index}(unfulfilled)", **fields})


def ended(index: int, state: JobState, start: int | None, end: int, **fields: Any) -> Job:
    """Return link `index` as an ended job that squeue still shows (MinJobAge)."""
    return job(index, state, start=start, end=end, **fields)


def ended_record(index: int, state: JobState, start: int | None, end: int, **fields: Any) -> Job:
    """Return link `index` as an ended job in sacct."""
    return record(index, state, start=start, end=end, **fields)


def register(store: Store, *, now: int = NOW, **fields: Any) -> None:
    """Register alice's chain, of nine links by default, on the first cluster of the database."""
    registration = Registration(**{"chain_id": CHAIN, "links": 9, **fields})
    with store.begin() as tx:
        register_chain(tx, 1, registration, uid=ALICE, user="alice", now=now)


def links(store: Store, chain_id: ChainId = CHAIN) -> dict[int, Link]:
    with store.read() as tx:
        return {link.index: link for link in chains.list_links(tx, 1, chain_id)}


def chain(store: Store, chain_id: ChainId = CHAIN) -> Chain:
    with store.read() as tx:
        return chains.get_chain(tx, 1, chain_id)


def read_mode(store: Store, partition: str = "") -> Mode:
    """Read the mode of the first cluster of the database, or of its partition."""
    with store.read() as tx:
        return clusters.resolve_mode(clusters.list_modes(tx, 1), partition)


def events(store: Store, chain_id: ChainId = CHAIN) -> list[str]:
    """Return the events of the chain's audit, oldest first."""
    with store.read() as tx:
        return [entry.event for entry in audit.list_entries(tx, 1, chain_id=chain_id)][::-1]


class WrittenCluster:
    """A ports.Cluster whose queue, records and answers to moves the test writes."""

    def __init__(self, *jobs: Job, now: int = NOW) -> None:
        self.at = now
        self.jobs: list[Job] = list(jobs)
        self.records: list[Job] = []
        self.errors: dict[str, BaseException] = {}
        """The error that a method raises instead of an answer, by the method's name."""
        self.requested_nodes: dict[JobId, str] = {}
        """The nodes that jobs ask for by name, by job."""
        self.known_nodes: tuple[Node, ...] = ()
        self.windows: list[tuple[int, int]] = []
        self.moves: list[tuple[str, JobId, str]] = []

    def read_clock(self) -> int:
        return self.at

    def fetch_queue(self) -> Queue:
        self._answer("queue")
        return Queue.from_jobs(self.at, self.jobs)

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        self._answer("some_jobs")
        return Queue.from_jobs(self.at, (job for job in self.jobs if job.job_id in job_ids))

    def fetch_nodes(self) -> tuple[Node, ...]:
        self._answer("nodes")
        return self.known_nodes

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        self._answer("history")
        self.windows.append((since, until))
        for record in self.records:
            if record.submit < until and (record.end is None or record.end >= since):
                yield record

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        self._answer("jobs")
        return [record for record in self.records if record.job_id in job_ids]

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        self._answer("asked_nodes")
        return {
            job_id: self.requested_nodes[job_id]
            for job_id in job_ids
            if job_id in self.requested_nodes
        }

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        self._move("unpin" if unpin else "free", standby, dependency)

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        raise ClusterRefused("nothing pins yet")

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        self._move("hold", standby, dependency)

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        self._move("suspend", standby, "")

    def release_job(self, standby: JobId, *, owner: int) -> None:
        self._move("resume", standby, "")

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        self._move("cancel", job_id, "")

    def _move(self, name: str, standby: JobId, dependency: str) -> None:
        self.moves.append((name, standby, dependency))
        self._answer(name)
        if name in {"free", "unpin", "hold"}:
            self.jobs = [
                reread_queue_job(job, dependency=dependency) if job.job_id == standby else job
                for job in self.jobs
            ]

    def _answer(self, name: str) -> None:
        if name in self.errors:
            raise self.errors[name]


def sync(store: Store, *jobs: Job, now: int = NOW, accounting: bool = False) -> None:
    """Update links by jobs from the queue or from accounting, on the database's first cluster."""
    with store.begin() as tx:
        link_service.sync_links(tx, 1, jobs, now, accounting=accounting)


def advance_chain(store: Store, *jobs: Job, now: int = NOW) -> Chain:
    """Update alice's chain by jobs from the queue, as a tick does; return the chain."""
    with store.begin() as tx:
        link_service.sync_links(tx, 1, jobs, now)
        chain_service.advance_chains(tx, 1, now)
    return chain(store)


def find_last_decision(store: Store, index: int = 2) -> DecisionRow:
    """Return the newest decision of that link of alice's chain; there must be one."""
    with store.read() as tx:
        row = decisions.find_last_decision(tx, 1, CHAIN, index)
    assert row is not None
    return row


def contents(store: Store) -> dict[str, list[Any]]:
    """Read all rows of all tables, as text, sorted: two equal contents are the same database."""
    with store.read() as tx:
        return {
            table.name: sorted(map(repr, tx.execute(select(table))))
            for table in metadata.sorted_tables
            if table.name != "ticks"  # its rows have the time and the duration of each tick
        }


def follow(store: Store, *jobs: Job, now: int = NOW) -> tuple[ChainState, str, str]:
    """Update alice's chain by jobs from the queue; return its state, its risk and its note."""
    chain_now = advance_chain(store, *jobs, now=now)
    risk = chain_now.at_risk.word if chain_now.at_risk else ""
    return chain_now.state, risk, describe_chain(chain_now)
