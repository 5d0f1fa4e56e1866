"""Small hand-made scenes: four nodes of four CPUs, times counted from T0."""

from typing import Any

from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob
from tests.support.simulator.jobs import make_sim_job
from tests.support.simulator.views import list_pending_ids

T0 = 1_200_000
"""A multiple of every interval the scenes use."""


def site(**settings: Any) -> Params:
    """Four equal nodes, whole-node scheduling, priority by age alone."""
    plain = {"nodes": 4, "cpus_per_node": 4, "gpus_per_node": 0, "priority_weight_job_size": 0}
    return Params(**{**plain, **settings})


def job_at(
    job_id: int, at: int = 0, *, limit: int = 600, run: int | None = None, **rest: Any
) -> SimJob:
    """Build a job submitted at T0 + `at` that runs to its limit. `begin`, `cancel_at`: after T0."""
    for name in ("begin", "cancel_at"):
        if name in rest:
            rest[name] += T0
    run_s = limit if run is None else run
    return make_sim_job(job_id, submit=T0 + at, limit_s=limit, run_s=run_s, **rest)


class Scene:
    """A site with its jobs."""

    def __init__(self, params: Params, *jobs: SimJob) -> None:
        self.sim = Simulator(params, jobs)
        self.ids = [j.job_id for j in jobs]

    def until(self, seconds: int) -> "Scene":
        self.sim.advance(T0 + seconds)
        return self

    def starts(self) -> dict[int, int | None]:
        """Every job's start, in seconds after T0, once all is over."""
        self.until(100_000)
        return {i: self.start(i) for i in self.ids}

    def start(self, job_id: int) -> int | None:
        return self._after_t0(self._life(job_id, "start"))

    def end(self, job_id: int) -> int | None:
        return self._after_t0(self._life(job_id, "end"))

    def state(self, job_id: int) -> str:
        return str(self._life(job_id, "state"))

    def priority(self, job_id: int) -> int:
        priority: int = self._life(job_id, "priority")
        return priority

    def nodes(self, job_id: int) -> tuple[int, ...]:
        nodes: tuple[int, ...] = self._life(job_id, "allocated")
        return nodes

    def plans(self) -> dict[int, int]:
        return {i: s - T0 for i, s in self.sim.compute_planned_starts().items()}

    def order(self) -> list[int]:
        return list_pending_ids(self.sim)

    def _life(self, job_id: int, field: str) -> Any:
        return getattr(self.sim.find(job_id), field, None)

    def _after_t0(self, t: int | None) -> int | None:
        return None if t is None else t - T0
