"""Chains in a full replay: links that follow each other among the jobs of a log, many at once.

An episode table assumes that the cluster does not notice its one hand-over. Here the links of all
chains wait in one queue with the jobs of the log. So the replay shows what chains cost other users.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from mirage.domain.chain import Position
from mirage.domain.decision import Waits
from mirage.domain.ports import Policy
from mirage.judging.table.metadata import STEP_S
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.standby import AFTER_END_S, Standby
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Event, EventKind, Params, SimJob, build_afterany

LINKS = 7

RunTime = Callable[[int, int, int], int]
"""Returns the run time of a link in seconds, by slot, chain of that slot and link, each counted
from 0. It is the same under every policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSlot:
    """A user who runs one chain after the other: as one ends, the next is submitted."""

    first: int
    """Submission of the first chain, epoch seconds."""
    job: SimJob
    chains: int
    """The number of chains."""


@dataclass(slots=True, kw_only=True)
class LinkRun:
    """One link of a chain. Each but the first is submitted as the standby of the link before."""

    slot: int
    chain: int
    link: int
    job_id: int
    standby: Standby | None = None
    """The link as a standby of the link before it; None for the first link."""
    start: int | None = None
    end: int | None = None


@dataclass(slots=True)
class ChainReplay:
    """A log and chains on one simulated cluster. `run` replays them."""

    params: Params
    workload: Workload
    slots: tuple[ChainSlot, ...]
    policy: Policy
    run_time: RunTime
    until: int
    """The policy decides up to this instant, epoch seconds. Later, Slurm alone decides, and no
    new link is submitted."""
    links: int = LINKS
    step_s: int = STEP_S
    runs: list[LinkRun] = field(default_factory=list)
    """In the order of their submission."""
    _sim: Simulator = field(init=False)
    _log: LogJobs = field(init=False)
    _by_job: dict[int, LinkRun] = field(default_factory=dict)
    _unpin: dict[int, list[Standby]] = field(default_factory=dict)
    """By instant: pinned standbys whose predecessor has ended."""

    def run(self) -> Simulator:
        """Replay the whole log and return the cluster, with its `start` and `end` columns."""
        first = int(self.workload.submit.min()) - 1
        self._sim = Simulator(self.params, self.workload, now=first)
        self._log = LogJobs.from_workload(self.workload)
        first_submissions = sorted((slot.first, i) for i, slot in enumerate(self.slots))
        for at, i in first_submissions:
            self._advance_to(at)
            self._submit_chain(i, 0)
        self._advance_to(self.until)
        self._sim.run_out()
        return self._sim

    # The clock

    def _advance_to(self, until: int) -> None:
        """Advance to an instant, with a decision at every `step_s` of the clock."""
        while self._sim.now < until:
            tick = (self._sim.now // self.step_s + 1) * self.step_s
            stop = min([tick, until, *self._unpin])
            self._run_events(stop)
            for at in [at for at in self._unpin if at <= self._sim.now]:
                self._free_pinned(self._unpin.pop(at))
            if self._sim.now % self.step_s == 0:
                self._ask_policy()

    def _run_events(self, until: int) -> None:
        """Run the events up to `until`. A link that starts submits its standby at that second."""
        while self._sim.find_next_instant() <= until:
            self._handle_events(self._sim.step(until))
        self._handle_events(self._sim.advance(until))

    def _handle_events(self, events: Iterable[Event]) -> None:
        for event in events:
            run = self._by_job.get(event.job_id)
            if run is None:
                continue
            if event.kind is EventKind.STARTED:
                self._handle_start(run, event.at)
            elif event.kind is EventKind.ENDED:
                self._handle_end(run, event.at)

    def _handle_start(self, run: LinkRun, at: int) -> None:
        run.start = at
        if run.link + 1 < self.links:
            record = self._sim.find(run.job_id)
            allocated = record.allocated if record is not None else ()
            self._submit_link(run.slot, run.chain, run.link + 1, predecessor=run, nodes=allocated)

    def _handle_end(self, run: LinkRun, at: int) -> None:
        run.end = at
        successor = self._find_successor(run)
        if successor is not None and successor.standby is not None:
            if successor.start is None and successor.standby.position is Position.PINNED:
                self._unpin.setdefault(at + AFTER_END_S, []).append(successor.standby)
        elif run.link + 1 == self.links and run.chain + 1 < self.slots[run.slot].chains:
            self._submit_chain(run.slot, run.chain + 1)

    def _find_successor(self, run: LinkRun) -> LinkRun | None:
        return next(
            (
                link_run
                for link_run in self._list_open_links()
                if link_run.standby and link_run.standby.predecessor == run.job_id
            ),
            None,
        )

    def _free_pinned(self, standbys: Iterable[Standby]) -> None:
        for standby in standbys:
            if self._by_job[standby.job_id].start is None:
                standby.move_to(self._sim, Position.FREE)

    # Decisions

    def _list_open_links(self) -> list[LinkRun]:
        """List the newest link of each slot if it is still a standby."""
        newest = {run.slot: run for run in self.runs[-4 * len(self.slots) :]}
        return [run for run in newest.values() if run.standby is not None]

    def _ask_policy(self) -> None:
        waits: Waits | None = None
        for run in self._list_open_links():
            if run.start is not None or run.standby is None:
                continue
            predecessor = self._by_job[run.standby.predecessor]
            earlier_link = predecessor.standby and self._by_job[predecessor.standby.predecessor]
            if predecessor.end is None and not (earlier_link and earlier_link.end is None):
                waits = waits or self._log.collect_waits(self._sim.start)
                run.standby.ask_policy(self._sim, self.policy, waits)

    # Submissions

    def _submit_chain(self, slot: int, chain: int) -> None:
        self._submit_link(slot, chain, 0, predecessor=None, nodes=())

    def _submit_link(
        self,
        slot: int,
        chain: int,
        link: int,
        *,
        predecessor: LinkRun | None,
        nodes: tuple[int, ...],
    ) -> None:
        job = replace(self.slots[slot].job, run_s=self.run_time(slot, chain, link))
        if predecessor is not None:
            job = replace(job, dependencies=build_afterany(predecessor.job_id))
        run = LinkRun(slot=slot, chain=chain, link=link, job_id=self._sim.inject(job))
        if predecessor is not None:
            run.standby = Standby(
                predecessor=predecessor.job_id,
                job_id=run.job_id,
                job=job,
                node_list=nodes,
                end=(predecessor.start or 0) + job.time_limit_s,
            )
        self.runs.append(run)
        self._by_job[run.job_id] = run
