"""One chain on a simulated cluster, link after link, until its work is done.

The links are sequential: a link that starts before its predecessor's end holds its nodes idle until
then, or gives them back and is released again. One that starts earlier than the default max-overlap
allows steps back, as links do. The chain is alone with the log's jobs, which do not notice how it
is moved.
"""

from dataclasses import dataclass, replace

from mirage.domain.chain import get_default_overlap_s
from mirage.domain.ports import Policy
from mirage.domain.time_units import MINUTE_S
from mirage.judging.table.metadata import STEP_S
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.standby import Standby, run_handover
from mirage.policies.rules.return_rule import BACK_S, choose_return_lead
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Dependency, DependencyKind, SimJob, build_afterany


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a chain, and the links that do it."""

    link: SimJob
    """What each link asks for. It runs to its time limit, or until the work is done."""
    work_s: int
    """Seconds of work in all."""
    startup_s: int = 0
    """Seconds that each link needs until it works."""
    overlap_price: float
    """Hours of interruption that an hour of idle nodes costs, as policies are told."""
    most_returns: int = 0
    """How often a link may give its nodes back."""


@dataclass(slots=True, kw_only=True)
class WorkRun:
    """What came of a chain. Instants are epoch seconds; the other numbers are sums over its links,
    in seconds."""

    submitted: int
    began: int | None = None
    """The start of the first link, which no policy changes; None: it never started."""
    finished: int | None = None
    """None: the work was not done in the time that was simulated."""
    links: int = 0
    ran_s: int = 0
    """From each link's start to its end."""
    idle_s: int = 0
    """The part of `ran_s` in which a link waited for its predecessor's end, or gave its nodes
    back."""
    returns: int = 0
    interrupted_s: int = 0
    """Between a link's end and the start of the next one."""


def run_work(
    sim: Simulator,
    work: Work,
    policy: Policy,
    log: LogJobs,
    *,
    at_most: int,
) -> WorkRun:
    """Submit the chain now, and play it to its end, or to the instant `at_most`; `sim` is changed.

    `log` has the jobs of the simulator's trace.
    """
    run = WorkRun(submitted=sim.now)
    link = replace(work.link, run_s=work.link.time_limit_s)
    job_id = sim.inject(link)
    start = run.began = sim.run_until_started(job_id, at_most)
    begin, left_s = start, work.work_s
    while start is not None and begin is not None:
        run.links += 1
        end = start + link.time_limit_s
        done_at = begin + work.startup_s + left_s
        if done_at <= end:
            run.ran_s += done_at - start
            run.finished = done_at if done_at <= at_most else None
            return run
        run.ran_s += link.time_limit_s
        left_s -= max(0, end - begin - work.startup_s)
        standby = _submit_standby(sim, work, link, job_id, end)
        handover = run_handover(
            sim,
            standby,
            policy,
            lambda _: log.collect_waits(sim.start),
            step_s=STEP_S,
            at_most=at_most,
        )
        again = _play_returns(
            sim,
            work,
            run,
            standby,
            handover.successor_start,
            predecessor_start=start,
            at_most=at_most,
        )
        if again is None:
            return run
        job_id, start = again
        begin = max(start, end)
        run.idle_s += begin - start
        run.interrupted_s += begin - end
        sim.advance_quietly(begin)
    return run


def _play_returns(  # noqa: PLR0913 - a standby and what bounds it
    sim: Simulator,
    work: Work,
    run: WorkRun,
    standby: Standby,
    start: int | None,
    *,
    predecessor_start: int,
    at_most: int,
) -> tuple[int, int] | None:
    """Let a link that starts early decide; return its last job and that job's start.

    None: it has not started by `at_most`. Beyond max-overlap it goes whatever the rule says, and
    after the last return once more, to wait for its predecessor's end.
    """
    job_id, left = standby.job_id, work.most_returns
    most_s, after = standby.max_overlap_s or 0, build_afterany(standby.predecessor)
    while start is not None and start < min(standby.end, at_most):
        early_s, record = standby.end - start, sim.find(job_id)
        waited_s = 0 if record is None or record.eligible is None else start - record.eligible
        lead_s = choose_return_lead(early_s, waited_s, work.overlap_price)
        if lead_s is None and early_s > most_s:
            lead_s = early_s - BACK_S - MINUTE_S
        if left > 0 and lead_s is not None:
            run.returns += 1
            release_s = max(standby.end - min(lead_s, most_s), start + BACK_S) - predecessor_start
            release = Dependency(
                DependencyKind.AFTER, standby.predecessor, _round_to_minute(release_s)
            )
            job = replace(standby.job, dependencies=(*after, release), any_dependency=True)
        elif left == 0 and early_s > most_s:
            job = replace(standby.job, dependencies=after)
        else:
            break
        left -= 1
        run.ran_s += BACK_S
        run.idle_s += BACK_S
        sim.remove(job_id)
        job_id = sim.inject(job)
        start = sim.run_until_started(job_id, at_most)
    return None if start is None or start >= at_most else (job_id, start)


def _round_to_minute(seconds: int) -> int:
    """Slurm counts whole minutes; never earlier than asked."""
    return -(-seconds // MINUTE_S) * MINUTE_S


def _submit_standby(
    sim: Simulator, work: Work, link: SimJob, predecessor: int, end: int
) -> Standby:
    record = sim.find(predecessor)
    job = replace(link, dependencies=build_afterany(predecessor))
    return Standby(
        predecessor=predecessor,
        job_id=sim.inject(job),
        job=job,
        node_list=() if record is None else record.allocated,
        end=end,
        overlap_price=work.overlap_price,
        max_overlap_s=get_default_overlap_s(link.time_limit_s),
    )
