"""Implements ports.Cluster over the simulator, with simulated users of chains."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as chained

from mirage.domain.chain import ChainId, Mark, find_mark
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.errors import ClusterRefused, InputError
from mirage.lab.demo.simulated_cluster.slurm_text import SlurmTranslator
from mirage.simulator.arrays.layout import FAR
from mirage.simulator.dependency_text import DependencyList
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Event, EventKind, JobRecord, Params, SimJob, build_afterany
from mirage.slurm.clients.ownership import refuse_another_owner
from mirage.slurm.text import holds
from mirage.slurm.text.dependency import check_unchanged

MIN_JOB_AGE_S = 300
"""Seconds for which an ended job stays in the queue's answer: slurm.conf's default MinJobAge."""
REQUEUE_WAIT_S = 120
"""Seconds for which Slurm holds back a requeued job."""


_SETTINGS = "mirage:style=concurrent,max-overlap=4:00:00"
"""The settings that the links' guards keep to if the service has no registration of the chain."""


def _format_comment(mark: Mark) -> str:
    return f"{_SETTINGS} {mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChainUser:
    """A chain as its links know it: the number of links, and the request of each."""

    links: int
    job: SimJob


class SimulatedCluster:
    """A cluster whose clock moves only by `advance`. One thread at a time: the worker's."""

    def __init__(
        self,
        params: Params,
        workload: Workload | Iterable[SimJob] = (),
        *,
        now: int | None = None,
        partition: str = "",
    ) -> None:
        """`partition` is where chains are submitted; empty: the default partition."""
        self.params = params
        self.partition = partition or params.partitions[0].name
        self.simulator = Simulator(params, workload, now=now)
        self._translator = SlurmTranslator(params)
        self._chains: dict[ChainId, _ChainUser] = {}
        self._links: dict[Mark, int] = {}
        """Jobs of the standbys that were submitted for links."""
        self._pinned: set[int] = set()
        self._running_records: dict[int, JobRecord] = {}
        """Running jobs as they started: what accounting keeps of a run that is requeued."""
        self._requeued_runs: list[Job] = []
        """Runs that ended by a requeue, in that order."""
        self._resubmitted: dict[int, int] = {}
        """When a job was requeued last: the submit time that Slurm shows of it from then on."""

    # The clock and its people

    def advance(self, seconds: int) -> None:
        """Let time pass. Links that start put their standby in place at that very second."""
        until = self.simulator.now + seconds
        while (at := self._get_next_instant()) <= until:
            self._process_events(self.simulator.step(at))
        self._process_events(self.simulator.advance(until))

    def _get_next_instant(self) -> int:
        """Return the next instant at which a link may start."""
        return self.simulator.find_next_instant() if self._chains else FAR

    def submit_chain(
        self,
        chain_id: ChainId,
        *,
        links: int,
        time_limit_s: int,
        run_s: int | None = None,
        nodes: int = 1,
        user: str | None = None,
    ) -> JobId:
        """A user's wrapped sbatch: the first link of a chain, whose links carry on by themselves.

        Links take whole nodes. Each chain has a user of its own unless one is named, so that limits
        per user do not couple them.
        """
        if links < 1:
            raise InputError(f"a chain has at least one link, not {links}")
        job = SimJob(
            nodes=nodes,
            exclusive=True,
            time_limit_s=time_limit_s,
            run_s=time_limit_s if run_s is None else run_s,
            user=user or f"chain-{chain_id}",
            partition=self.partition,
            name=f"chain-{chain_id}",
            comment=_format_comment(Mark(chain_id, 1)),
        )
        job_id = JobId(self.simulator.inject(job))
        self._chains[chain_id] = _ChainUser(links=links, job=job)
        return job_id

    def requeue_job(self, job_id: JobId) -> None:
        """Requeue as scontrol does: a running job ends and waits again."""
        self.simulator.requeue(job_id)
        self._record_requeue(job_id, self.simulator.now)

    def _process_events(self, events: list[Event]) -> None:
        """Process events around jobs: record requeued runs for accounting, and links that start."""
        for event in events:
            if event.kind is EventKind.REQUEUED:
                self._record_requeue(event.job_id, event.at)
            elif event.kind is EventKind.STARTED:
                self._handle_start(event.job_id)
            elif event.kind is EventKind.ENDED:
                self._running_records.pop(event.job_id, None)

    def _handle_start(self, job_id: int) -> None:
        record = self.simulator.find(job_id)
        if record is None:
            return
        if record.state is JobState.RUNNING:
            self._running_records[job_id] = record
        mark = find_mark(record.job.comment)
        chain = self._chains.get(mark.chain_id) if mark else None
        if mark and chain and mark.index < chain.links:
            self._submit_standby(chain, Mark(mark.chain_id, mark.index + 1), job_id)

    def _submit_standby(self, chain: _ChainUser, mark: Mark, predecessor: int) -> None:
        """Submit the standby, as mirage-link does when its link starts.

        A link that runs again and has a living standby gets no other.
        """
        if mark in self._links and self._is_alive(self._links[mark]):
            return
        standby = replace(
            chain.job, comment=_format_comment(mark), dependencies=build_afterany(predecessor)
        )
        self._links[mark] = self.simulator.inject(standby)

    def _is_alive(self, job_id: int) -> bool:
        record = self.simulator.find(job_id)
        return record is not None and not record.state.has_ended

    def _record_requeue(self, job_id: int, at: int) -> None:
        """Record the ended run by itself, and reset the job's submit time, as Slurm does."""
        run = self._running_records.pop(job_id, None)
        if run is None:
            return
        ended = self._build_job(replace(run, state=JobState.REQUEUED, end=at))
        self._requeued_runs.append(ended)
        # Never the same second, or two records would have one name in accounting.
        self._resubmitted[job_id] = max(at, ended.submit + 1)

    def _end_chain(self, record: JobRecord) -> None:
        """End the chain whose running link was cancelled: the standby's guard ends without
        running."""
        mark = find_mark(record.job.comment)
        if mark is None or self._chains.pop(mark.chain_id, None) is None:
            return
        standby = self._links.get(Mark(mark.chain_id, mark.index + 1))
        if standby is not None and self._is_alive(standby):
            self.simulator.remove(standby)

    # What a cluster shows (ports.Cluster)

    def read_clock(self) -> int:
        return self.simulator.now

    def fetch_queue(self) -> Queue:
        """Return pending jobs by priority, then held, running and recently ended jobs."""
        sim = self.simulator
        starts = sim.compute_planned_starts()
        pending = sim.list_pending()
        reasons = self._compute_reasons(pending)
        waiting = [
            self._build_job(r, planned=starts.get(r.job_id), reason=reasons.get(r.job_id, ""))
            for r in pending
        ]
        other_records = chained(sim.list_running(), sim.list_ended_since(sim.now - MIN_JOB_AGE_S))
        return Queue.from_jobs(sim.now, [*waiting, *(self._build_job(r) for r in other_records)])

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        wanted_ids = frozenset(job_ids)
        jobs = (job for job in self.fetch_queue() if job.job_id in wanted_ids)
        return Queue.from_jobs(self.simulator.now, jobs)

    def fetch_nodes(self) -> tuple[Node, ...]:
        uses = [self.simulator.get_node_use(i) for i in range(self.params.nodes)]
        return self._translator.build_nodes(uses)

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        sim = self.simulator
        yield from (j for j in self._requeued_runs if (j.end or 0) >= since and j.submit < until)
        for record in chained(sim.list_ended_since(since), sim.list_pending(), sim.list_running()):
            job = self._build_job(record)
            if job.submit < until:
                yield job

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        records = (self.simulator.find(i) for i in job_ids)
        return [
            self._build_job(r) for r in records if r is not None and r.submit <= self.simulator.now
        ]

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        records = ((job_id, self.simulator.find(job_id)) for job_id in job_ids)
        node_lists = {job_id: r.node_list for job_id, r in records if r is not None and r.node_list}
        return {
            job_id: self._translator.format_node_list(numbers)
            for job_id, numbers in node_lists.items()
        }

    # What moves jobs (ports.Cluster)

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        self._check_owner(standby, owner, expected_dependency)
        self._apply_dependency(standby, dependency)
        self._clear_node_list(standby, force=unpin)

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        self._check_owner(standby, owner, expected_dependency)
        conditions = self._translator.parse_dependency(dependency)
        record = self.simulator.find(standby)
        if record is not None and record.node_list and standby not in self._pinned:
            own_nodes = self._translator.format_node_list(record.node_list)
            raise ClusterRefused(
                f"job {standby} asks for nodes itself ({own_nodes}): it is not pinned"
            )
        self.simulator.set_node_list(standby, self._translator.parse_node_list(node_list))
        self._pinned.add(standby)
        self._apply_conditions(standby, conditions)

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        self._check_owner(standby, owner, expected_dependency)
        self._apply_dependency(standby, dependency)
        self._clear_node_list(standby, force=unpin)

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        self._check_owner(standby, owner)
        holds.check_unheld(standby, self._read_hold(standby))
        self.simulator.hold(standby)

    def release_job(self, standby: JobId, *, owner: int) -> None:
        self._check_owner(standby, owner)
        holds.check_users_hold(standby, self._read_hold(standby))
        self.simulator.release(standby)

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        self._check_owner(job_id, owner)
        record = self.simulator.find(job_id)
        self.simulator.remove(job_id)
        self._running_records.pop(job_id, None)
        if record is not None and record.state is JobState.RUNNING:
            self._end_chain(record)
        # The simulator keeps the record of an ended job only once its event was fetched.
        self._process_events(self.simulator.advance(self.read_clock()))

    def _check_owner(
        self, job_id: JobId, owner: int, expected_dependency: str | None = None
    ) -> None:
        """Check the job's owner and dependency. The simulator itself refuses a missing job."""
        record = self.simulator.find(job_id)
        if record is not None:
            refuse_another_owner(job_id, self._translator.get_uid(record.job.user), owner)
            check_unchanged(job_id, self._build_job(record).dependency, expected_dependency)

    def _apply_dependency(self, standby: JobId, dependency: str) -> None:
        self._apply_conditions(standby, self._translator.parse_dependency(dependency))

    def _apply_conditions(self, standby: JobId, conditions: DependencyList) -> None:
        any_of = conditions.any_dependency
        self.simulator.set_dependencies(standby, conditions.dependencies, any_of=any_of)

    def _clear_node_list(self, standby: JobId, *, force: bool) -> None:
        """Clear the node list if `force`, or if Mirage set it. A user's own node list stays."""
        if force or standby in self._pinned:
            self.simulator.set_node_list(standby, ())
            self._pinned.discard(standby)

    # Between the two vocabularies

    def _read_hold(self, job_id: JobId) -> list[holds.HoldState]:
        record = self.simulator.find(job_id)
        if record is None:
            return []
        is_waiting = record.state.is_waiting
        return [
            holds.HoldState(
                is_waiting,
                self._explain_ineligible(record),
                record.priority if is_waiting else None,
            )
        ]

    def _build_job(self, record: JobRecord, *, planned: int | None = None, reason: str = "") -> Job:
        job = self._translator.build_job(
            record,
            planned=planned,
            reason=self._explain_ineligible(record) or reason,
        )
        submit = self._resubmitted.get(record.job_id)
        return job if submit is None else replace(job, submit=submit)

    def _compute_reasons(self, pending: Sequence[JobRecord]) -> dict[int, str]:
        """Return Slurm's reasons: the first job of a partition waits for Resources, those behind
        for Priority."""
        reasons: dict[int, str] = {}
        headed_partitions: set[str] = set()
        for record in pending:
            if record.eligible is None:
                continue
            job = record.job
            if self.simulator.has_reached_max_jobs(job.user, job.qos):
                reasons[record.job_id] = "QOSMaxJobsPerUserLimit"
            else:
                partition = self._translator.get_partition(job).name
                reasons[record.job_id] = (
                    "Priority" if partition in headed_partitions else "Resources"
                )
                headed_partitions.add(partition)
        return reasons

    def _explain_ineligible(self, record: JobRecord) -> str:
        """Return why a job is not eligible; empty: it is eligible, or no longer pending."""
        if record.state is not JobState.PENDING or record.eligible is not None:
            return ""
        if record.held:
            return holds.ADMINS if record.held_by_admin else holds.USERS
        if record.dependencies:
            return "Dependency"
        begin = max(record.job.begin, self._resubmitted.get(record.job_id, 0) + REQUEUE_WAIT_S)
        # A record has no dependency that can no longer be met.
        return "BeginTime" if self.read_clock() < begin else "DependencyNeverSatisfied"
