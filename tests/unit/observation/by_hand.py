"""The numbers again, in plain numpy and by name: obvious rather than fast."""

import math

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.observation import spec
from mirage.observation.compute import PendingColumns, RecentPast, RunningColumns, ScalarInputs

_FAR_S = 7 * 86400


def numbers(
    s: ScalarInputs,
    pending: PendingColumns,
    running: RunningColumns,
    everywhere: Ints,
    past: RecentPast,
) -> dict[str, float]:
    usual = Usual(past)
    return (
        _paper(s, pending, running)
        | _nodes(s)
        | _profile(s, running, usual)
        | _ahead(s, pending, everywhere, usual)
        | _users(s, pending, everywhere, usual)
        | _lately(s, past)
        | _rest(s)
    )


class Usual:
    def __init__(self, past: RecentPast) -> None:
        self.all = past.all_runs[0] / past.all_runs[1]
        self.runs = past.runs

    def of(self, users: Ints) -> NDArray[np.float64]:
        return np.array([self.one(int(u)) for u in users], dtype=np.float64)

    def one(self, user: int) -> float:
        total, count = self.runs[user] if user < len(self.runs) else (0.0, 0.0)
        return float((total + 2 * self.all) / (count + 2))


def _spread(name: str, values: Ints) -> dict[str, float]:
    points = (0, 25, 50, 75, 100)
    told = np.percentile(values, points) if len(values) else np.zeros(5)
    return {f"{name}_p{p}": float(v) for p, v in zip(points, told, strict=True)}


def _paper(s: ScalarInputs, pending: PendingColumns, running: RunningColumns) -> dict[str, float]:
    limit = s.predecessor_end - s.predecessor_start
    return {
        "pending_jobs": len(pending.nodes),
        "pending_nodes": pending.nodes.sum(),
        **_spread("pending_limit", pending.time_limit_s),
        **_spread("pending_age", pending.age_s),
        **_spread("pending_run", np.zeros(0, dtype=np.int64)),
        "running_jobs": len(running.nodes),
        "running_nodes": running.nodes.sum(),
        **_spread("running_limit", running.time_limit_s),
        **_spread("running_wait", running.wait_s),
        **_spread("running_elapsed", running.elapsed_s),
        "predecessor_limit": limit,
        "predecessor_nodes": s.predecessor_nodes,
        "predecessor_wait": max(0, s.predecessor_start - s.predecessor_submit),
        "predecessor_elapsed": min(limit, max(0, s.now - s.predecessor_start)),
        "successor_limit": s.time_limit_s,
        "successor_nodes": s.nodes,
        "successor_wait": 0,
        "successor_elapsed": 0,
    }


def _nodes(s: ScalarInputs) -> dict[str, float]:
    return {
        "nodes_up": s.nodes_up,
        "nodes_down": s.nodes_all - s.nodes_up,
        "nodes_free": s.nodes_free,
        "nodes_free_share": s.nodes_free / s.nodes_up if s.nodes_up else s.nodes_free,
        "nodes_short": max(0, s.nodes - s.nodes_free),
        "cpus_free_share": s.cpus_free_share,
        "gpus_free_share": s.gpus_free_share,
    }


def _profile(s: ScalarInputs, running: RunningColumns, usual: Usual) -> dict[str, float]:
    by_limit = np.maximum(0, running.time_limit_s - running.elapsed_s).astype(float)
    as_usual = by_limit * usual.of(running.user)
    told: dict[str, float] = {}
    for name, left in (("by_limit", by_limit), ("as_usual", as_usual)):
        for h in spec.HORIZONS_H:
            told[f"freed_{name}_{h}h"] = running.nodes[left <= h * 3600].sum()
        free, room = s.nodes_free, 0.0 if s.nodes_free >= s.nodes else float(_FAR_S)
        for i in np.argsort(left, kind="stable"):
            if free < s.nodes <= free + running.nodes[i]:
                room = min(left[i], _FAR_S)
            free += running.nodes[i]
        told[f"room_{name}"] = room
    return told


def _capped(s: ScalarInputs, users: Ints, everywhere: Ints) -> NDArray[np.bool_]:
    counts = np.array([(everywhere == user).sum() for user in users], dtype=np.int64)
    return (counts >= s.max_jobs_pu) & (s.max_jobs_pu > 0)


def _ahead(
    s: ScalarInputs, pending: PendingColumns, everywhere: Ints, usual: Usual
) -> dict[str, float]:
    hours = pending.nodes * pending.time_limit_s / 3600
    ahead = pending.priority >= s.priority
    open_hours = hours[ahead & ~_capped(s, pending.user, everywhere)].sum()
    return {
        "ahead_jobs": ahead.sum(),
        "ahead_nodes": pending.nodes[ahead].sum(),
        "ahead_node_hours": hours[ahead].sum(),
        "ahead_node_hours_as_usual": (hours * usual.of(pending.user))[ahead].sum(),
        "ahead_open_node_hours": open_hours,
        "ahead_machine_time": open_hours * 3600 / max(1, s.nodes_up),
        "ahead_no_wider_jobs": (ahead & (pending.nodes <= s.nodes)).sum(),
        "pending_node_hours": hours.sum(),
    }


def _users(
    s: ScalarInputs, pending: PendingColumns, everywhere: Ints, usual: Usual
) -> dict[str, float]:
    capped = _capped(s, pending.user, everywhere)
    own = (everywhere == s.user).sum()
    return {
        "own_running_jobs": own,
        "own_pending_jobs": (pending.user == s.user).sum(),
        "own_limit_share": own / s.max_jobs_pu if s.max_jobs_pu else 0.0,
        "capped_pending_jobs": capped.sum(),
        "capped_node_hours": (pending.nodes * pending.time_limit_s / 3600)[capped].sum(),
        "own_usual_share": usual.one(s.user),
        "all_usual_share": usual.all,
    }


def _lately(s: ScalarInputs, past: RecentPast) -> dict[str, float]:
    told: dict[str, float] = {}
    for h in spec.ARRIVALS_H:
        new = past.arrivals[past.arrivals[:, 0] > s.now - h * 3600]
        told[f"arrived_jobs_{h}h"] = len(new)
        told[f"arrived_node_hours_{h}h"] = (new[:, 1] * new[:, 2] / 3600).sum()
    _, wait, nodes, limit = past.starts.T
    like = (nodes <= 2 * s.nodes) & (2 * nodes >= s.nodes)
    like &= (limit <= 2 * s.time_limit_s) & (2 * limit >= s.time_limit_s)
    for name, waits in (("", wait), ("_like", wait[like])):
        told[f"started{name}_jobs"] = len(waits)
        told[f"waited{name}_mean"] = waits.mean() if len(waits) else 0.0
        told[f"waited{name}_p50"] = np.quantile(waits, 0.5) if len(waits) else 0.0
        told[f"waited{name}_p90"] = np.quantile(waits, 0.9) if len(waits) else 0.0
    return told


def _rest(s: ScalarInputs) -> dict[str, float]:
    day = 2 * math.pi * ((s.now + s.utc_offset_s) % 86400) / 86400
    # 1970-01-05 was a Monday.
    week = 2 * math.pi * ((s.now + s.utc_offset_s - 4 * 86400) % 604800) / 604800
    left = max(0, s.predecessor_end - s.now)
    told = {
        "day_sin": math.sin(day),
        "day_cos": math.cos(day),
        "week_sin": math.sin(week),
        "week_cos": math.cos(week),
        "predecessor_left": left,
        "predecessor_left_share": left / (s.predecessor_end - s.predecessor_start),
    }
    for name, plan in (("plan", s.plan), ("usual_plan", s.usual_plan)):
        start = s.now + s.horizon_s if plan < 0 else plan
        told[f"{name}_wait"] = start - s.now
        told[f"{name}_missing"] = float(plan < 0)
        told[f"{name}_gap"] = start - s.predecessor_end
    return told
