"""SimulatedCluster: ports.Cluster over the simulator, with chain users who live in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mirage.domain.chain import ChainId, Mark, find_mark
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.errors import ClusterRefused, InputError
from mirage.sim import priority
from mirage.sim.nodes import numbers
from mirage.sim.simulator import Simulator
from mirage.sim.types import Event, EventKind, Params, Record, SimJob

MIN_JOB_AGE_S = 300
"""slurm.conf's default MinJobAge: how long an ended job stays in the queue's answer."""

_FIRST_UID = 10001


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChainUser:
    """What the link of a chain knows: how long the chain is, and what its own job looks like."""

    links: int
    job: SimJob


class SimulatedCluster:
    """A cluster whose clock moves only by `advance`. One thread at a time: the worker's."""

    def __init__(
        self,
        params: Params,
        workload: Iterable[SimJob] = (),
        *,
        now: int | None = None,
        partition: str = "batch",
    ) -> None:
        self.params = params
        self.partition = partition
        self.simulator = Simulator(params, workload, now=now)
        self._uids: dict[str, int] = {}
        self._chains: dict[ChainId, _ChainUser] = {}
        width = len(str(params.nodes))
        self._names = [f"{params.name}{i + 1:0{width}}" for i in range(params.nodes)]

    # The clock and its people

    def advance(self, seconds: int) -> None:
        """Let time pass. Links that start put their standby in place at that very second."""
        until = self.simulator.now + seconds
        while self.simulator.next_instant() <= until:
            self._live(self.simulator.step(until))
        self.simulator.advance(until)

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

        Each chain has a user of its own unless one is named, so MaxJobsPU does not couple them.
        """
        if links < 1:
            raise InputError(f"a chain has at least one link, not {links}")
        job = SimJob(
            nodes=nodes,
            time_limit_s=time_limit_s,
            run_s=time_limit_s if run_s is None else run_s,
            user=user or f"chain-{chain_id}",
            partition=self.partition,
            name=f"chain-{chain_id}",
            comment=str(Mark(chain_id, 1)),
        )
        self._chains[chain_id] = _ChainUser(links=links, job=job)
        return JobId(self.simulator.inject(job))

    def _live(self, events: list[Event]) -> None:
        """What mirage-link does when its link starts: put the next standby in place."""
        for event in events:
            if event.kind is not EventKind.STARTED:
                continue
            record = self.simulator.find(event.job_id)
            mark = find_mark(record.job.comment) if record else None
            chain = self._chains.get(mark.chain_id) if mark else None
            if mark and chain and mark.index < chain.links:
                self._put_standby(chain, Mark(mark.chain_id, mark.index + 1), event.job_id)

    def _put_standby(self, chain: _ChainUser, mark: Mark, predecessor: int) -> None:
        j = chain.job
        standby = SimJob(
            nodes=j.nodes,
            time_limit_s=j.time_limit_s,
            run_s=j.run_s,
            user=j.user,
            partition=j.partition,
            name=j.name,
            comment=str(mark),
            after=predecessor,
        )
        self.simulator.inject(standby)

    def _end_chain(self, record: Record) -> None:
        """scancel of a running link ends its chain: the standby's guard ends it unrun."""
        mark = find_mark(record.job.comment)
        if mark is None or self._chains.pop(mark.chain_id, None) is None:
            return
        following = str(Mark(mark.chain_id, mark.index + 1))
        for other in list(self.simulator.records.values()):
            if other.job.comment == following:
                self.simulator.remove(other.job_id)

    # What a cluster shows (ports.Cluster)

    def now(self) -> int:
        return self.simulator.now

    def queue(self) -> Queue:
        """Pending jobs in priority order first, then held ones, running ones, those just ended."""
        sim = self.simulator
        starts = sim.planned_starts()
        order = [e.job_id for e in sim.order()]
        blocked = set(order)
        rest = [i for i, r in sim.records.items() if i not in blocked and r.submit <= sim.now]
        reasons = self._reasons(order)
        rows = [
            self._job(sim.records[i], planned=starts.get(i), reason=reasons.get(i, ""))
            for i in (*order, *rest)
        ]
        return Queue.of(sim.now, [*rows, *(self._job(r) for r in self._just_ended())])

    def nodes(self) -> tuple[Node, ...]:
        p = self.params
        free = self.simulator.free_nodes
        return tuple(
            Node(
                name=name,
                partitions=(self.partition,),
                state="idle" if free >> i & 1 else "allocated",
                cpus=p.cpus_per_node,
                cpus_used=0 if free >> i & 1 else p.cpus_per_node,
                gpus=p.gpus_per_node,
                gpus_used=0 if free >> i & 1 else p.gpus_per_node,
            )
            for i, name in enumerate(self._names)
        )

    def history(self, since: int, until: int) -> Iterator[Job]:
        sim = self.simulator
        live = [r for r in sim.records.values() if r.submit <= sim.now]
        for record in (*sim.ended_since(since), *live):
            if record.submit < until:
                yield self._job(record)

    def jobs(self, job_ids: Sequence[JobId]) -> list[Job]:
        found = (self.simulator.find(i) for i in job_ids)
        return [self._job(r) for r in found if r is not None]

    # What moves jobs (ports.Cluster)

    def free(self, standby: JobId, *, dependency: str, unpin: bool = False) -> None:  # noqa: ARG002
        """No job here has a node list of its own: being free is being unpinned."""
        self._depend(standby, dependency)
        self.simulator.pin(standby, None)

    def pin(self, standby: JobId, *, dependency: str, node_list: str) -> None:
        bits = self._bits(node_list)
        record = self.simulator.find(standby)
        if record is not None and bits.bit_count() != record.job.nodes:
            raise ClusterRefused("Requested node configuration is not available")
        self._depend(standby, dependency)
        self.simulator.pin(standby, bits)

    def hold(self, standby: JobId, *, dependency: str, unpin: bool = False) -> None:  # noqa: ARG002
        self._depend(standby, dependency)
        self.simulator.pin(standby, None)

    def suspend(self, standby: JobId) -> None:
        self.simulator.hold(standby)

    def resume(self, standby: JobId) -> None:
        self.simulator.release(standby)

    def cancel(self, job_id: JobId) -> None:
        record = self.simulator.records.get(job_id)
        running = record is not None and record.state is JobState.RUNNING
        self.simulator.remove(job_id)
        if record is not None and running:
            self._end_chain(record)

    # Between the two vocabularies

    def _depend(self, standby: JobId, dependency: str) -> None:
        """Only what the simulator has: one `afterany:<job id>`, or nothing."""
        kind, colon, target = dependency.partition(":")
        if dependency and not (kind == "afterany" and colon and target.isdecimal()):
            raise ClusterRefused(f"Job dependency problem: {dependency!r}")
        self.simulator.set_dependency(standby, int(target) if target else None)

    def _bits(self, node_list: str) -> int:
        places = {name: i for i, name in enumerate(self._names)}
        names = node_list.split(",")
        if not set(names) <= places.keys():
            raise ClusterRefused(f"Invalid node name specified: {node_list}")
        return sum(1 << places[name] for name in set(names))

    def _reasons(self, order: Sequence[int]) -> dict[int, str]:
        """Slurm's words: the first waits for Resources, those behind it for Priority."""
        reasons: dict[int, str] = {}
        first = True
        for job_id in order:
            if self.simulator.user_full(self.simulator.records[job_id].job.user):
                reasons[job_id] = "QOSMaxJobsPerUserLimit"
            else:
                reasons[job_id] = "Resources" if first else "Priority"
                first = False
        return reasons

    def _just_ended(self) -> list[Record]:
        return self.simulator.ended_since(self.simulator.now - MIN_JOB_AGE_S)

    def _uid(self, user: str) -> int:
        return self._uids.setdefault(user, _FIRST_UID + len(self._uids))

    def _job(self, record: Record, *, planned: int | None = None, reason: str = "") -> Job:
        job, p = record.job, self.params
        pending = record.state is JobState.PENDING
        start = record.start if record.start is not None else planned
        end = record.end
        if record.state is JobState.RUNNING and start is not None:
            end = start + job.time_limit_s
        if pending:
            reason = self._standing_reason(record) or reason
        return Job(
            job_id=JobId(record.job_id),
            submit=record.submit,
            state=record.state,
            user=job.user,
            uid=self._uid(job.user),
            account="sim",
            partition=job.partition or self.partition,
            qos="normal",
            name=job.name,
            reason=reason or "None",
            priority=self._priority(record) if pending else None,
            eligible=record.eligible,
            start=start,
            end=end,
            time_limit_s=job.time_limit_s,
            nodes=job.nodes,
            cpus=job.nodes * p.cpus_per_node,
            gpus=job.nodes * p.gpus_per_node,
            exit_code="0:0" if record.state.ended else "",
            dependency=f"afterany:{record.after}(unfulfilled)" if record.after else "",
            node_list=",".join(self._names[i] for i in numbers(record.allocated)),
            comment=job.comment,
        )

    @staticmethod
    def _standing_reason(record: Record) -> str:
        if record.held:
            return "JobHeldAdmin"
        return "Dependency" if record.after is not None else ""

    def _priority(self, record: Record) -> int:
        """Slurm's multifactor plugin gives a held job 0, and one not yet eligible 1."""
        if record.held or record.eligible is None:
            return 0 if record.held else 1
        p, sim = self.params, self.simulator
        age_from = record.submit if p.accrue_always else record.eligible
        return priority.value(p, sim.now, age_from, record.job.nodes)
