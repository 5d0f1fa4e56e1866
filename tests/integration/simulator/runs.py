"""A case played on the simulator or on the reference, and what came out."""

from typing import Any, NamedTuple

from mirage.errors import ClusterRefused
from mirage.simulator.simulator import Simulator
from tests.integration.simulator.cases import Case
from tests.support.simulator.reference.reference import Reference
from tests.support.simulator.views import list_pending_ids


class Outcome(NamedTuple):
    """Start, end and state by job id; the moves refused; the plan at one instant."""

    jobs: dict[int, tuple[int | None, int | None, str]]
    refused: tuple[int, ...]
    plan: dict[int, int]
    order: list[int]


def by_reference(case: Case, look_at: int | None = None) -> Outcome:
    """The case as the reference plays it."""
    return _play(Reference(case.params, case.jobs), case, look_at)


def by_simulator(case: Case, look_at: int | None = None) -> Outcome:
    """The case as the simulator plays it."""
    return _play(Simulator(case.params, case.jobs), case, look_at)


def _play(sim: Any, case: Case, look_at: int | None) -> Outcome:
    refused: list[int] = []
    plan: dict[int, int] = {}
    order: list[int] = []
    for i, move in enumerate(case.moves):
        if look_at is not None and look_at < move.at and not order:
            sim.advance(look_at)
            plan, order, look_at = sim.compute_planned_starts(), list_pending_ids(sim), None
        sim.advance(move.at)
        try:
            getattr(sim, move.name)(*move.args, **move.options)
        except ClusterRefused:
            refused.append(i)
    if look_at is not None:
        sim.advance(look_at)
        plan, order = sim.compute_planned_starts(), list_pending_ids(sim)
    sim.advance(case.until)
    return Outcome(_jobs(sim, case), tuple(refused), plan, order)


def _jobs(sim: Any, case: Case) -> dict[int, tuple[int | None, int | None, str]]:
    ids = [j.job_id for j in case.jobs] + [
        m.args[0].job_id for m in case.moves if m.name == "inject"
    ]
    return {i: _life(sim, i) for i in sorted(ids)}


def _life(sim: Any, job_id: int) -> tuple[int | None, int | None, str]:
    if isinstance(sim, Reference):
        state = sim.state(job_id)
        return (sim.start(job_id), sim.end(job_id), "" if state is None else str(state))
    record = sim.find(job_id)
    return (None, None, "") if record is None else (record.start, record.end, str(record.state))
