"""A small busy cluster and hand-overs on it, seeded."""

from functools import cache

from mirage.episodes.table.pair_settings import PairSettings
from mirage.learn.environment.live_library import LiveLibrary, ObservationKind
from mirage.learn.environment.start_states import StartStates, collect_start_states
from mirage.sim.types import Params, SimJob
from mirage.traces.workloads import synthetic

NODES, DAYS = 24, 21
HOUR_S, DAY_S = 3600, 86400
FIRST = synthetic.EPOCH + 12 * DAY_S
SETTINGS = PairSettings(
    nodes=2,
    time_limit_s=8 * HOUR_S,
    every_s=6 * HOUR_S,
    since=FIRST,
    until=FIRST + 3 * DAY_S,
)
INSTANTS = len(SETTINGS.instant_s)


def params(accrue_always: bool = False) -> Params:
    return Params(nodes=NODES, accrue_always=accrue_always)


@cache
def jobs() -> tuple[SimJob, ...]:
    return tuple(synthetic.generate_workload("heavy", nodes=NODES, days=DAYS, seed=1))


@cache
def starts(accrue_always: bool = False) -> StartStates:
    return collect_start_states(params(accrue_always), jobs(), SETTINGS)


def library(
    accrue_always: bool = False, observed: ObservationKind = ObservationKind.SMALL
) -> LiveLibrary:
    return LiveLibrary(starts(accrue_always), observed)
