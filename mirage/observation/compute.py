"""Computes one row of raw numbers of an observation from arrays.

The functions are compiled. `feature_vector` calls them for one link; they also suit a loop over
many links. Each function fills one group of `spec.GROUPS`, in the order of the group. Durations are
seconds, node hours are hours.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S, HOUR_S, WEEK_S
from mirage.observation.spec import Scaling
from mirage.simulator.arrays.jit import allocating_kernel as kernel

_LOG, _LOG_HOURS = int(Scaling.LOG), int(Scaling.LOG_HOURS)
_SIGNED_LOG_HOURS = int(Scaling.SIGNED_LOG_HOURS)
_HOUR_S = float(HOUR_S)
_MONDAY_S = 3 * DAY_S
"""The epoch was a Thursday: three days after a Monday."""
_FAR_S = float(WEEK_S)
"""Stands for a duration that is longer than anything in sight; seconds."""
_PRIOR_RUNS = 2.0
"""The weight, in runs, that the average of all users has in the usual share of one user."""


class PendingColumns(NamedTuple):
    """Eligible waiting jobs, int64 columns; order does not matter."""

    nodes: Ints
    time_limit_s: Ints
    age_s: Ints
    """Seconds since the job became eligible."""
    user: Ints
    priority: Ints
    """The priority as squeue prints it."""


class RunningColumns(NamedTuple):
    """Running jobs, int64 columns; order does not matter."""

    nodes: Ints
    time_limit_s: Ints
    elapsed_s: Ints
    wait_s: Ints
    """How long the job waited: start - eligible, seconds."""
    user: Ints


class RecentPast(NamedTuple):
    """The contents of a `RunningStats` at an instant."""

    arrivals: Ints
    """[n, 3]: instant, nodes and time limit of the jobs submitted in the last 24 h."""
    starts: Ints
    """[n, 4]: instant, wait, nodes and time limit of the jobs started in the last 24 h."""
    runs: Floats
    """[users, 2]: decayed sum of run time / time limit, and decayed count of runs."""
    all_runs: Floats
    """[2]: the same two sums over all users."""


class ScalarInputs(NamedTuple):
    """The link and the cluster as single numbers. Instants are epoch seconds."""

    now: int
    utc_offset_s: int
    nodes: int
    time_limit_s: int
    user: int
    priority: int
    """The priority that the successor would have if it were eligible now, as squeue prints it."""
    predecessor_nodes: int
    predecessor_submit: int
    predecessor_start: int
    predecessor_end: int
    nodes_all: int
    nodes_up: int
    nodes_free: int
    cpus_free_share: float
    gpus_free_share: float
    max_jobs_pu: int
    """MaxJobsPU of the successor's QOS; 0: no limit."""
    plan: int
    """The planned start of the successor; -1: no start within the horizon."""
    usual_plan: int
    horizon_s: int


@kernel
def find_rows_between(rows: Ints, after: int, until: int) -> tuple[int, int]:
    """Find the rows with an instant in (after, until].

    The rows ascend by instant. Returns the first of these rows, and the row after the last.
    """
    last = len(rows)
    while last > 0 and rows[last - 1, 0] > until:
        last -= 1
    first = last
    while first > 0 and rows[first - 1, 0] > after:
        first -= 1
    return first, last


@kernel
def compute_usual_share(past: RecentPast, user: int) -> float:
    """Compute the share of its time limit that a job of this user usually runs, in [0, 1]."""
    everybody = float(past.all_runs[0] / past.all_runs[1])
    if user >= len(past.runs):
        return everybody
    total, count = past.runs[user]
    return float((total + _PRIOR_RUNS * everybody) / (count + _PRIOR_RUNS))


@kernel
def compute_quantile(ascending: Floats, q: float) -> float:
    """Compute a quantile, linear between neighbours as in numpy's default. Of no values it is 0."""
    if len(ascending) == 0:
        return 0.0
    position = q * (len(ascending) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ascending) - 1)
    return float(ascending[low] + (position - low) * (ascending[high] - ascending[low]))


@kernel
def _fill_spread(values: Ints, out: Floats) -> None:
    ascending = np.sort(values).astype(np.float64)
    for i in range(5):
        out[i] = compute_quantile(ascending, i * 0.25)


@kernel
def _fill_paper(
    s: ScalarInputs, pending: PendingColumns, running: RunningColumns, out: Floats
) -> None:
    """Fill the 42 numbers of the code of the Mirage paper (SC'23). The numbers that the paper's
    code leaves at 0 are 0 here too."""
    out[:] = 0.0
    out[0] = len(pending.nodes)
    out[1] = pending.nodes.sum()
    _fill_spread(pending.time_limit_s, out[2:7])
    _fill_spread(pending.age_s, out[7:12])
    out[17] = len(running.nodes)
    out[18] = running.nodes.sum()
    _fill_spread(running.time_limit_s, out[19:24])
    _fill_spread(running.wait_s, out[24:29])
    _fill_spread(running.elapsed_s, out[29:34])
    out[34] = s.predecessor_end - s.predecessor_start
    out[35] = s.predecessor_nodes
    out[36] = max(0, s.predecessor_start - s.predecessor_submit)
    out[37] = min(max(0, s.now - s.predecessor_start), s.predecessor_end - s.predecessor_start)
    out[38] = s.time_limit_s
    out[39] = s.nodes


@kernel
def _fill_nodes(s: ScalarInputs, out: Floats) -> None:
    out[0] = s.nodes_up
    out[1] = max(0, s.nodes_all - s.nodes_up)
    out[2] = s.nodes_free
    out[3] = s.nodes_free / max(1, s.nodes_up)
    out[4] = max(0, s.nodes - s.nodes_free)
    out[5] = s.cpus_free_share
    out[6] = s.gpus_free_share


@kernel
def _compute_room_wait(needed: int, nodes: Ints, left_s: Floats) -> float:
    """Compute the time until ending jobs have freed `needed` nodes, if no other job takes them;
    seconds."""
    if needed <= 0:
        return 0.0
    for i in np.argsort(left_s, kind="mergesort"):
        needed -= nodes[i]
        if needed <= 0:
            return float(min(left_s[i], _FAR_S))
    return _FAR_S


@kernel
def _fill_profile(
    s: ScalarInputs, running: RunningColumns, past: RecentPast, hours: Ints, out: Floats
) -> None:
    left_s = np.empty(len(running.nodes))
    usual_s = np.empty(len(running.nodes))
    for i in range(len(left_s)):
        left_s[i] = max(0, running.time_limit_s[i] - running.elapsed_s[i])
        usual_s[i] = compute_usual_share(past, running.user[i]) * left_s[i]
    out[:] = 0.0
    n = len(hours)
    for i in range(len(left_s)):
        for h in range(n):
            within_s = hours[h] * _HOUR_S
            out[h] += running.nodes[i] if left_s[i] <= within_s else 0
            out[n + h] += running.nodes[i] if usual_s[i] <= within_s else 0
    out[2 * n] = _compute_room_wait(s.nodes - s.nodes_free, running.nodes, left_s)
    out[2 * n + 1] = _compute_room_wait(s.nodes - s.nodes_free, running.nodes, usual_s)


@kernel
def _fill_ahead(
    s: ScalarInputs, pending: PendingColumns, running_counts: Ints, past: RecentPast, out: Floats
) -> None:
    """Fill the work of the waiting jobs ahead of the successor.

    A job of equal priority is ahead, since it has the lower id.
    """
    out[:] = 0.0
    for i in range(len(pending.nodes)):
        hours = pending.nodes[i] * (pending.time_limit_s[i] / _HOUR_S)
        out[7] += hours
        if pending.priority[i] < s.priority:
            continue
        out[0] += 1
        out[1] += pending.nodes[i]
        out[2] += hours
        out[3] += hours * compute_usual_share(past, pending.user[i])
        out[4] += 0.0 if _is_capped(s, running_counts, pending.user[i]) else hours
        out[6] += 1 if pending.nodes[i] <= s.nodes else 0
    out[5] = out[4] * _HOUR_S / max(1, s.nodes_up)


@kernel
def _is_capped(s: ScalarInputs, running_counts: Ints, user: int) -> bool:
    """Return whether MaxJobsPU keeps this user's jobs waiting."""
    return (
        s.max_jobs_pu > 0 and user < len(running_counts) and running_counts[user] >= s.max_jobs_pu
    )


@kernel
def _count_by_user(users: Ints) -> Ints:
    highest = -1
    for user in users:
        highest = max(highest, user)
    counts = np.zeros(highest + 1, dtype=np.int64)
    for user in users:
        counts[user] += 1
    return counts


@kernel
def _fill_users(
    s: ScalarInputs, pending: PendingColumns, running_counts: Ints, past: RecentPast, out: Floats
) -> None:
    out[:] = 0.0
    out[0] = running_counts[s.user] if s.user < len(running_counts) else 0
    for i in range(len(pending.nodes)):
        out[1] += 1 if pending.user[i] == s.user else 0
        if _is_capped(s, running_counts, pending.user[i]):
            out[3] += 1
            out[4] += pending.nodes[i] * (pending.time_limit_s[i] / _HOUR_S)
    out[2] = out[0] / s.max_jobs_pu if s.max_jobs_pu > 0 else 0.0
    out[5] = compute_usual_share(past, s.user)
    out[6] = past.all_runs[0] / past.all_runs[1]


@kernel
def _fill_waits(waits: Ints, out: Floats) -> None:
    """Fill `out` with the count, mean, median and 90th percentile of the waits."""
    ascending = np.sort(waits).astype(np.float64)
    out[0] = len(ascending)
    out[1] = ascending.mean() if len(ascending) else 0.0
    out[2] = compute_quantile(ascending, 0.5)
    out[3] = compute_quantile(ascending, 0.9)


@kernel
def _select_like_waits(starts: Ints, nodes: int, time_limit_s: int) -> Ints:
    """Select the waits of jobs whose nodes and time limit differ from these by a factor of two at
    most."""
    out = np.empty(len(starts), dtype=np.int64)
    n = 0
    for i in range(len(starts)):
        as_wide = starts[i, 2] <= 2 * nodes and nodes <= 2 * starts[i, 2]
        if as_wide and starts[i, 3] <= 2 * time_limit_s and time_limit_s <= 2 * starts[i, 3]:
            out[n] = starts[i, 1]
            n += 1
    return out[:n]


@kernel
def _fill_lately(s: ScalarInputs, past: RecentPast, hours: Ints, out: Floats) -> None:
    out[:] = 0.0
    n = len(hours)
    for i in range(len(past.arrivals)):
        ago_s = s.now - past.arrivals[i, 0]
        node_hours = past.arrivals[i, 1] * (past.arrivals[i, 2] / _HOUR_S)
        for h in range(n):
            if ago_s < hours[h] * _HOUR_S:
                out[h] += 1
                out[n + h] += node_hours
    _fill_waits(past.starts[:, 1], out[2 * n : 2 * n + 4])
    _fill_waits(
        _select_like_waits(past.starts, s.nodes, s.time_limit_s), out[2 * n + 4 : 2 * n + 8]
    )


@kernel
def _fill_clock(s: ScalarInputs, out: Floats) -> None:
    local = s.now + s.utc_offset_s
    day = 2.0 * math.pi * (local % DAY_S) / DAY_S
    week = 2.0 * math.pi * ((local + _MONDAY_S) % WEEK_S) / WEEK_S
    out[0], out[1] = math.sin(day), math.cos(day)
    out[2], out[3] = math.sin(week), math.cos(week)


@kernel
def _fill_predecessor(s: ScalarInputs, out: Floats) -> None:
    left_s = max(0, s.predecessor_end - s.now)
    out[0] = left_s
    out[1] = left_s / max(1, s.predecessor_end - s.predecessor_start)


@kernel
def _fill_plan(s: ScalarInputs, planned: int, out: Floats) -> None:
    """Fill the numbers of a planned start. Without a plan, the start counts as if it were at the
    horizon."""
    start = planned if planned >= 0 else s.now + s.horizon_s
    out[0] = max(0, start - s.now)
    out[1] = 0.0 if planned >= 0 else 1.0
    out[2] = start - s.predecessor_end


@kernel
def compute_numbers(
    s: ScalarInputs,
    pending: PendingColumns,
    running: RunningColumns,
    cluster_running_users: Ints,
    past: RecentPast,
    table: tuple[Ints, Ints, Ints],
) -> Floats:
    """Compute one row of raw numbers, float64[F].

    `cluster_running_users`: the user of every running job of the cluster, in other partitions too.
    `table`: the first place of each group, the horizons of the profile, and the windows of arrivals
    (`spec`).
    """
    starts, horizons_h, arrivals_h = table
    running_counts = _count_by_user(cluster_running_users)
    out = np.empty(starts[-1])
    _fill_paper(s, pending, running, out[starts[0] : starts[1]])
    _fill_nodes(s, out[starts[1] : starts[2]])
    _fill_profile(s, running, past, horizons_h, out[starts[2] : starts[3]])
    _fill_ahead(s, pending, running_counts, past, out[starts[3] : starts[4]])
    _fill_users(s, pending, running_counts, past, out[starts[4] : starts[5]])
    _fill_lately(s, past, arrivals_h, out[starts[5] : starts[6]])
    _fill_clock(s, out[starts[6] : starts[7]])
    _fill_predecessor(s, out[starts[7] : starts[8]])
    _fill_plan(s, s.plan, out[starts[8] : starts[8] + 3])
    _fill_plan(s, s.usual_plan, out[starts[8] + 3 : starts[9]])
    return out


@kernel
def scale_numbers(raw: Floats, scales: Ints) -> NDArray[np.float32]:
    """Scale each number as `spec.Scaling` says: float32[F]."""
    out = np.empty(len(raw), dtype=np.float32)
    for i in range(len(raw)):
        x = raw[i]
        if scales[i] == _LOG:
            x = math.log1p(x)
        elif scales[i] == _LOG_HOURS:
            x = math.log1p(x / _HOUR_S)
        elif scales[i] == _SIGNED_LOG_HOURS:
            x = math.copysign(math.log1p(abs(x) / _HOUR_S), x)
        out[i] = x
    return out
