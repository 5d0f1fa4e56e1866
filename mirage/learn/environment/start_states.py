"""Makes the worlds in which live hand-overs begin: a predecessor has just started."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirage.episodes.generation.event_history import EventHistory
from mirage.episodes.generation.replay import TraceReplay
from mirage.episodes.generation.replay_fork import ReplayFork
from mirage.episodes.table.pair_settings import PairSettings
from mirage.errors import InputError
from mirage.features.handover_input import HandoverInput
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob


@dataclass(frozen=True, slots=True)
class StartState:
    """A predecessor that has just started, its standby held behind it. Only forked, never moved."""

    world: ReplayFork
    past: EventHistory
    """The history up to that instant."""
    link: HandoverInput
    node_list: tuple[int, ...]
    """The predecessor's nodes."""
    reactive_start: int
    """The standby's start if nobody moves it, epoch seconds."""


@dataclass(frozen=True, slots=True)
class StartStates:
    """Start points in order, and those left out, by reason."""

    found: tuple[StartState, ...]
    skipped: dict[str, tuple[int, ...]]
    step_s: int


def collect_start_states(
    params: Params, jobs: Sequence[SimJob], settings: PairSettings
) -> StartStates:
    """Make the worlds of the episodes that `mirage.episodes` would make of the same settings.

    A start point is skipped if the predecessor or the standby never starts, or if a lost node cuts
    the predecessor short. Raises InputError if no start point is left, or `settings` do not fit.
    """
    worlds = TraceReplay(params, jobs, settings)
    found: list[StartState] = []
    skipped: dict[str, tuple[int, ...]] = {}
    for point in settings.start_points:
        start = _build_start_state(worlds, point)
        if isinstance(start, StartState):
            found.append(start)
        else:
            skipped[start] = (*skipped.get(start, ()), point)
    if not found:
        raise InputError(f"No hand-over can begin at these start points: {', '.join(skipped)}.")
    return StartStates(tuple(found), skipped, settings.step_s)


def _build_start_state(worlds: TraceReplay, point: int) -> StartState | str:
    """The world of one start point, or why there is none."""
    world, past = worlds.fork_at(point)
    if world is None:
        return "the predecessor does not start"
    # The standby's own submission has happened by the first instant.
    past.follow_world(world.sim, world.start)
    running = world.sim.find(world.predecessor)
    twin = replace(world, sim=world.sim.fork())
    twin.sim.advance(world.end)
    if running is None or not twin.has_run_to_limit():
        return "the predecessor does not run to its limit"
    reactive_start = simulate_start(twin.sim, world.standby, worlds.at_most)
    if reactive_start is None:
        return "the standby does not start"
    return StartState(
        world,
        past,
        world.build_handover_input(worlds.link, point),
        running.allocated,
        reactive_start,
    )


def simulate_start(sim: Simulator, job_id: int, until: int) -> int | None:
    """The start of a job that has not ended, once it has started or `until` has come."""
    record = sim.find(job_id)
    if record is not None and record.start is not None:
        return record.start
    return sim.run_until_started(job_id, until)
