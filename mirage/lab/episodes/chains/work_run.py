"""Plays one chain on a simulated cluster, link after link, until its work is done.

A sequential link that starts before its predecessor's end holds its nodes idle until then, or gives
them back and is released again. A link of style `wait` starts up meanwhile, and holds its nodes. A
link of style `switch` starts up too, and its predecessor then ends for it. A link that starts
earlier than max-overlap allows is sent back, as on a real cluster. There is no other chain.
"""

from dataclasses import dataclass, replace

from mirage.domain.chain import OVERLAP_PRICE, Style, get_default_overlap_s
from mirage.domain.ports import Policy
from mirage.errors import ClusterRefused
from mirage.judging.policy_runner import OwnPlan
from mirage.judging.table.metadata import STEP_S
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.standby import Standby, run_handover
from mirage.lab.episodes.chains.world_memory import ViewCompleter, WorldMemory
from mirage.observation.handover_input import HandoverInput
from mirage.policies.rules.lead_rules import Reactive, sample_like_waits
from mirage.policies.rules.overlap_bound import compute_work_floor_s
from mirage.policies.rules.release_cost import bound_new_lead, choose_new_lead
from mirage.policies.rules.return_rule import BACK_S
from mirage.policies.rules.switch_price import compute_switch_price, estimate_missed_s
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob, build_afterany

_PLAIN = Reactive()
STYLES = (Style.SEQUENTIAL, Style.WAIT, Style.SWITCH)
"""The styles that are played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a chain, and the links that do it."""

    link: SimJob
    """The request of each link. A link runs to its time limit, or until the work is done."""
    work_s: int
    """Seconds of work in all."""
    startup_s: int = 0
    """Seconds that each link needs until it works."""
    overlap_price: float | None = OVERLAP_PRICE
    """Hours of interruption that an hour of idle nodes costs, as the policy's view has it. None:
    the default price of a switch chain."""
    most_returns: int = 0
    """How often a link may give its nodes back, where its style is sequential."""
    style: Style = Style.SEQUENTIAL
    """One of `STYLES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """The policy that releases a chain's links: the service's, or the links' own rule."""

    policy: Policy
    by_links: bool = False
    """Whether each link plans the release of the next by this policy, as it does without a
    service."""
    may_pin: bool = False


@dataclass(slots=True, kw_only=True)
class WorkRun:
    """The result of a chain. Instants are epoch seconds; the other numbers are sums over its links,
    in seconds."""

    submitted: int
    first_start: int | None = None
    """The start of the first link, which no policy changes; None: it never started."""
    finished: int | None = None
    """None: the work was not done in the time that was simulated."""
    links: int = 0
    ran_s: int = 0
    """From each link's start to its end."""
    idle_s: int = 0
    """The part of `ran_s` in which a link ran beside its predecessor, or gave its nodes back."""
    returns: int = 0
    interrupted_s: int = 0
    """Between a link's end and the start of the next one."""


def run_work(
    sim: Simulator,
    work: Work,
    planner: Planner,
    log: LogJobs,
    *,
    at_most: int,
    memory: WorldMemory | None = None,
) -> WorkRun:
    """Submit the chain now, and play it to its end, or to the instant `at_most`; `sim` is changed.

    `log` has the jobs of the simulator's trace. `memory` has followed the simulator up to now, and
    is changed; a policy that needs an observation or the twin has to have one.
    """
    chain = _Chain(sim, work, planner, log, at_most, memory)
    chain.play()
    return chain.run


class _Chain:
    """A chain under way. The simulator stands at the instant up to which it was played."""

    def __init__(
        self,
        sim: Simulator,
        work: Work,
        planner: Planner,
        log: LogJobs,
        at_most: int,
        memory: WorldMemory | None,
    ) -> None:
        self._sim, self._work, self._planner = sim, work, planner
        self._log, self._at_most, self._memory = log, at_most, memory
        self._link = replace(work.link, run_s=work.link.time_limit_s)
        self.run = WorkRun(submitted=sim.now)

    def play(self) -> None:
        work, run = self._work, self.run
        job_id = self._sim.inject(self._link)
        start = run.first_start = self._run_until_started(job_id)
        if start is None:
            return
        work_start, left_s = start + work.startup_s, work.work_s
        while True:
            run.links += 1
            end = start + self._link.time_limit_s
            if work_start + left_s <= end:
                run.ran_s += work_start + left_s - start
                run.finished = work_start + left_s if work_start + left_s <= self._at_most else None
                return
            next_link = self._hand_over(job_id, start, end)
            if next_link is None:
                run.ran_s += end - start
                return
            next_id, next_start = next_link
            if work.style is Style.SWITCH and next_start + work.startup_s < end:
                end = next_start + work.startup_s
                self._advance_to(end)
                self._sim.remove(job_id)
            self._advance_to(max(next_start, end))
            left_s -= max(0, end - work_start)
            run.ran_s += end - start
            run.idle_s += max(0, end - next_start)
            run.interrupted_s += max(0, next_start - end)
            ready = next_start if work.style is not Style.SEQUENTIAL else max(next_start, end)
            work_start = max(ready + work.startup_s, end)
            job_id, start = next_id, next_start

    def _advance_to(self, until: int) -> None:
        if self._memory is None:
            self._sim.advance_quietly(until)
        else:
            self._memory.follow_world(self._sim, until)

    def _run_until_started(self, job_id: int) -> int | None:
        if self._memory is None:
            return self._sim.run_until_started(job_id, self._at_most)
        return self._memory.follow_until_started(self._sim, job_id, self._at_most)

    # A hand-over

    def _hand_over(self, predecessor: int, start: int, end: int) -> tuple[int, int] | None:
        """Play the hand-over of a link that runs from `start` to `end`. Return the job of the next
        link that stays, and that job's start; None: it has not started by `at_most`."""
        standby = self._submit_standby(predecessor, start, end)
        policy = self._planner.policy
        if self._planner.by_links:
            policy = OwnPlan(policy, start, end)
        next_start = self._release(standby, policy)
        while next_start is not None and next_start < end:
            lead_s = self._choose_lead(standby, next_start)
            release_at = max(end - lead_s, next_start + BACK_S) if lead_s else None
            try:
                return_start = None if lead_s is None else standby.give_back(self._sim, release_at)
            except ClusterRefused:  # by a limit on submitted jobs
                break
            if lead_s is None:
                break
            self.run.ran_s += BACK_S
            self.run.idle_s += BACK_S
            if release_at is None:
                # Links plan no second release of one that was sent back.
                next_start = self._release(standby, _PLAIN if self._planner.by_links else policy)
            else:
                self.run.returns += 1
                next_start = return_start or self._follow_plan(standby, policy, release_at)
        return None if next_start is None else (standby.job_id, next_start)

    def _release(self, standby: Standby, policy: Policy) -> int | None:
        """Let the policy release the standby; return its start."""
        handover = run_handover(
            self._sim,
            standby,
            policy,
            lambda _: self._log.collect_waits(self._sim.start),
            step_s=STEP_S,
            at_most=self._at_most,
        )
        return handover.successor_start if handover.successor_start < self._at_most else None

    def _choose_lead(self, standby: Standby, start: int) -> int | None:
        """Return the lead in seconds with which a link that started early is released again.

        None: the link keeps its nodes. 0: it has no return left and is too early for max-overlap.
        It is sent back, and the policy decides its release anew.
        """
        left_s, record = standby.end - start, self._sim.find(standby.job_id)
        max_overlap_s = left_s if standby.max_overlap_s is None else standby.max_overlap_s
        if standby.returns == 0:
            return 0 if left_s > max_overlap_s else None
        release = start if record is None or record.eligible is None else record.eligible
        lead_s = choose_new_lead(
            () if standby.forecast is None else standby.forecast.waits_s,
            standby.overlap_price,
            standby.returns,
            released_s=release,
            start_s=start,
            end_s=standby.end,
        )
        return bound_new_lead(lead_s, left_s, start - release, max_overlap_s)

    def _follow_plan(self, standby: Standby, policy: Policy, release_at: int) -> int | None:
        """Advance to the planned release, where the policy forecasts the wait, and on to the start.

        Return the start; None: the link has not started by `at_most`.
        """
        start = standby.run_until_started(self._sim, release_at)
        if start is None:
            waits = self._log.collect_waits(self._sim.start)
            standby.forecast = standby.decide(self._sim, policy, waits).forecast
            start = standby.run_until_started(self._sim, self._at_most)
        return start if start is None or start < self._at_most else None

    def _submit_standby(self, predecessor: int, start: int, end: int) -> Standby:
        work, link, record = self._work, self._link, self._sim.find(predecessor)
        job = replace(link, dependencies=build_afterany(predecessor))
        standby = Standby(
            predecessor=predecessor,
            job_id=self._sim.inject(job),
            job=job,
            node_list=() if record is None else record.allocated,
            end=end,
            overlap_price=self._get_price(),
            max_overlap_s=get_default_overlap_s(link.time_limit_s),
            allow_pin=self._planner.may_pin,
            returns=work.most_returns if work.style is Style.SEQUENTIAL else 0,
        )
        if work.style is Style.SWITCH:
            standby.max_overlap_s = None
            standby.floor_reached_at = start + compute_work_floor_s(0, link.time_limit_s)
        if self._memory is not None:
            submitted = start if record is None else record.submit
            standby.view_completer = self._build_view_completer(
                self._memory, standby, submitted, start
            )
        return standby

    def _build_view_completer(
        self, memory: WorldMemory, standby: Standby, submitted: int, start: int
    ) -> ViewCompleter:
        """Build the completer of the views; `submitted` and `start` are the predecessor's."""
        link = self._link
        return ViewCompleter(
            memory=memory,
            link=HandoverInput(
                nodes=link.nodes,
                time_limit_s=link.time_limit_s,
                user=link.user,
                account=link.account,
                partition=link.partition,
                qos=link.qos,
                exclusive=link.exclusive,
                job_id=standby.job_id,
                submit=self._sim.now,
                predecessor_submit=submitted,
                predecessor_start=start,
                predecessor_end=standby.end,
            ),
            needs=self._planner.policy.needs,
            max_views=-(-link.time_limit_s // STEP_S),
        )

    def _get_price(self) -> float:
        """Return the chain's price. The default price of a switch chain follows from its start-up
        and the waits."""
        work, link = self._work, self._link
        if work.overlap_price is not None:
            return work.overlap_price
        jobs = self._log.collect_waits(self._sim.start)
        waits = sample_like_waits(jobs, link.nodes, link.time_limit_s)
        missed_s = estimate_missed_s(waits, work.startup_s, link.time_limit_s)
        return compute_switch_price(work.startup_s, missed_s, link.time_limit_s)
