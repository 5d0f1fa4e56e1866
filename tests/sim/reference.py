"""The obvious simulator: second by second, node counts in a list; from Slurm's manual.

Shares no code with mirage.sim but the records it takes and gives.
"""

from dataclasses import dataclass

from mirage.sim.types import Params, SimJob


@dataclass
class _Job:
    job: SimJob
    eligible: int | None = None
    start: int | None = None
    end: int | None = None

    @property
    def waiting(self) -> bool:
        return self.start is None and self.end is None


def start_times(params: Params, workload: list[SimJob], seconds: int) -> dict[int, int | None]:
    """Start of every job in the first `seconds`."""
    jobs = [_Job(j) for j in sorted(workload, key=lambda j: j.job_id)]
    changed_since_plan = False
    for now in range(seconds):
        changed = _happen(jobs, now)
        if changed:
            _main(params, jobs, now)
        changed_since_plan |= changed
        if now % params.bf_interval_s == 0 and changed_since_plan:
            _backfill(params, jobs, now)
            changed_since_plan = False
    return {j.job.job_id: j.start for j in jobs}


def _happen(jobs: list[_Job], now: int) -> bool:
    changed = False
    by_id = {j.job.job_id: j for j in jobs}
    for j in jobs:
        runs = min(j.job.run_s, j.job.time_limit_s)
        if j.start is not None and j.end is None and now >= j.start + runs:
            j.end = now
            changed = True
    for j in jobs:
        if j.waiting and j.job.cancel_at is not None and now >= max(j.job.cancel_at, j.job.submit):
            j.end = now
            changed = True
    for j in jobs:
        pred = by_id.get(j.job.after) if j.job.after is not None else None
        ready = pred is None or pred.end is not None
        if j.waiting and j.eligible is None and now >= j.job.submit and ready:
            j.eligible = now
            changed = True
    return changed


def _order(params: Params, jobs: list[_Job], now: int) -> list[_Job]:
    def priority(j: _Job) -> int:
        since = j.job.submit if params.accrue_always else j.eligible
        assert since is not None
        age = min(params.priority_max_age_s, now - since)
        by_age = params.priority_weight_age * age * params.nodes
        return by_age + params.priority_weight_job_size * j.job.nodes * params.priority_max_age_s

    able = [j for j in jobs if j.waiting and j.eligible is not None]
    return sorted(able, key=lambda j: (-priority(j), j.job.job_id))


def _in_use(jobs: list[_Job]) -> int:
    return sum(j.job.nodes for j in jobs if j.start is not None and j.end is None)


def _running_of(jobs: list[_Job], user: str) -> int:
    return sum(j.start is not None and j.end is None and j.job.user == user for j in jobs)


def _at_limit(params: Params, jobs: list[_Job], j: _Job) -> bool:
    return bool(params.max_jobs_pu) and _running_of(jobs, j.job.user) >= params.max_jobs_pu


def _main(params: Params, jobs: list[_Job], now: int) -> None:
    for j in _order(params, jobs, now):
        if _at_limit(params, jobs, j):
            continue
        if j.job.nodes > params.nodes - _in_use(jobs):
            return
        j.start = now


def _backfill(params: Params, jobs: list[_Job], now: int) -> None:
    free = [params.nodes] * params.bf_window_s
    for j in jobs:
        if j.start is not None and j.end is None:
            _take(params, free, now, j, j.start)
    tests = 0
    for j in _order(params, jobs, now):
        if _at_limit(params, jobs, j):
            continue
        if tests == params.bf_max_job_test:
            return
        tests += 1
        start = _first_place(params, free, now, j)
        if start is not None:
            _take(params, free, now, j, start)
        if start == now:
            j.start = now


def _first_place(params: Params, free: list[int], now: int, j: _Job) -> int | None:
    """At once, or at a point of the grid: space opens nowhere else."""
    for start in range(now, now + params.bf_window_s):
        if start == now or start % params.bf_resolution_s == 0:
            wanted = free[start - now : _rounded(params, start + j.job.time_limit_s) - now]
            if min(wanted) >= j.job.nodes:
                return start
    return None


def _take(params: Params, free: list[int], now: int, j: _Job, start: int) -> None:
    end = _rounded(params, start + j.job.time_limit_s)
    for second in range(max(start, now), min(end, now + params.bf_window_s)):
        free[second - now] -= j.job.nodes


def _rounded(params: Params, at: int) -> int:
    return (at + params.bf_resolution_s - 1) // params.bf_resolution_s * params.bf_resolution_s
