"""Infers a cluster from a log alone, without a search: nodes over time, a limit, dependencies."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.history.workloads.replay import LoggedOutcomes
from mirage.simulator.types import NodeEvent, Outage, SimJob

_GRID_S = 600
"""Seconds between two looks at the number of busy nodes."""
_BLOCK_S = 6 * HOUR_S
_MOST_OF_IT = 9 / 36
"""A block shows how many nodes there were only if this share of its looks was under pressure."""
_UNDER_PRESSURE = 2
"""A look is under pressure if this many users have a one-node job waiting. A single user may be
kept waiting by something else than the queue."""
_WAITED_S = 600
_SAME = 3
"""Two blocks that differ by no more nodes than this have the same level. The difference is
fragments that no waiting job fits into."""
_LASTING = 2
"""A level needs this many blocks in a row."""
_SEVERAL = 3
"""A limit is inferred only if this many users reach it exactly. A chain needs this many jobs."""
_TIGHT_S = 60
_MOSTLY = 0.75

Levels = tuple[tuple[int, int], ...]
"""(from when on, nodes there are), ascending."""


class BusyBlock(NamedTuple):
    at: int
    nodes: float
    """The number of nodes that were busy nine tenths of the time."""
    widest: int
    """The nodes of the widest waiting job. So many nodes may stand idle for that job."""

    def compare_level(self, level: float) -> int:
        """Return 1 above the level, -1 below it by more than a wide job explains, else 0."""
        above = self.nodes > level + _SAME
        below = self.nodes + self.widest < level - _SAME
        return int(above) - int(below)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenChains:
    """Jobs that follow one another as if by a dependency. Logs do not record dependencies."""

    chains: int
    jobs: int
    """Number of jobs that were submitted while the job before them ran or waited."""
    wait_h: float
    """Sum of the hours from their submission to their start."""


def infer_node_levels(
    submit: Ints, nodes: Ints, users: Ints, logged: LoggedOutcomes, until: int
) -> Levels:
    """Infer how many nodes there were, from the times at which all were busy while small jobs of
    several users waited. `users` are numbers.

    Blocks of six hours form one level if their busy nodes differ little, or by no more than the
    widest waiting job explains. At times when nobody waits the log does not show the level. There
    the result is the larger of the levels before and after, or the number of busy nodes. Nothing
    after `until` is looked at.
    """
    rows = (logged.start >= 0) & (logged.start < until)
    if not rows.any():
        return ()
    begin = int(logged.start[rows].min()) // _BLOCK_S * _BLOCK_S
    grid = np.arange(begin, until, _GRID_S)
    busy = _sum_over(grid, logged.start[rows], logged.end[rows], nodes[rows])
    has_waited = (logged.start - submit > _WAITED_S) & (logged.start >= 0) & ~logged.suspect
    pressure = _mark_pressure(grid, submit, logged.start, users, has_waited & (nodes == 1))
    blocks = _build_blocks(
        grid, busy, pressure, _compute_widest(grid, submit, logged.start, nodes * has_waited)
    )
    return _join_levels(_group_runs(blocks), grid, busy)


def build_node_events(
    levels: Levels,
    nodes: Sequence[int],
    known_events: Sequence[NodeEvent] = (),
    until: int | None = None,
) -> tuple[NodeEvent, ...]:
    """Build the outages that reduce `nodes` to `levels`. Those of `known_events` are among them.

    A log does not show which nodes were missing, so the last nodes are drained. A node that is out
    by `known_events` counts as one of the missing nodes, since the level counts busy nodes. From
    `until` on no level is known, and an outage in `known_events` then comes on top.
    """
    level_from = dict(levels)
    level = len(nodes)
    out: dict[int, Outage] = {}
    drained: dict[int, Outage] = {}
    before: dict[int, Outage] = {}
    events: list[NodeEvent] = []
    for at in sorted({*level_from, *(event.at for event in known_events)}):
        level = level_from.get(at, level)
        _apply_events(out, [event for event in known_events if event.at == at])
        if until is None or at < until:
            usable_nodes = [node for node in nodes if node not in out]
            drained = dict.fromkeys(usable_nodes[level:], Outage.DRAIN)
        now = drained | out
        events += _diff_outages(at, before, now)
        before = now
    return tuple(events)


def _apply_events(out: dict[int, Outage], events: Iterable[NodeEvent]) -> None:
    for event in events:
        if event.outage is Outage.RESUME:
            out.pop(event.node, None)
        else:
            out[event.node] = event.outage


def _diff_outages(
    at: int, before: Mapping[int, Outage], now: Mapping[int, Outage]
) -> Iterator[NodeEvent]:
    for node in sorted(before.keys() | now.keys()):
        if before.get(node) != now.get(node):
            yield NodeEvent(at, node, now.get(node, Outage.RESUME))


def infer_running_limit(users: Ints, logged: LoggedOutcomes, until: int) -> int:
    """Infer MaxJobsPU: the most jobs that any user ever had running, if several users had exactly
    that many. Otherwise 0."""
    most_by_user: list[int] = []
    rows = (logged.start >= 0) & (logged.start < until) & (logged.end > logged.start)
    for user in np.unique(users[rows]):
        user_rows = rows & (users == user)
        instants = np.concatenate([logged.end[user_rows], logged.start[user_rows]])
        step = np.repeat([-1, 1], user_rows.sum())
        # At one instant ends come first: np.lexsort sorts by its last key, then by the one before.
        most_by_user.append(int(np.cumsum(step[np.lexsort((step, instants))]).max()))
    limit = max(most_by_user, default=0)
    return limit if limit > 1 and most_by_user.count(limit) >= _SEVERAL else 0


def find_hidden_chains(jobs: Sequence[SimJob], logged: LoggedOutcomes, until: int) -> HiddenChains:
    """Find chains by one rule. The jobs of a chain have the same user, node count and name (digits
    at the name's end apart).

    Jobs that were submitted before the job before them had ended are counted. At least three of
    them, and at least three quarters, must have started within a minute of that end.
    """
    by_key: dict[tuple[str, str, int], list[int]] = {}
    for row, job in enumerate(jobs):
        if job.name and 0 <= logged.start[row] < until:
            stem = re.sub(r"\d+\+?$", "", job.name)
            by_key.setdefault((job.user, stem, job.nodes), []).append(row)
    chains = [chain for rows in by_key.values() if (chain := _select_followers(rows, jobs, logged))]
    return HiddenChains(
        chains=len(chains),
        jobs=sum(map(len, chains)),
        wait_h=sum(int(logged.start[row]) - jobs[row].submit for chain in chains for row in chain)
        / HOUR_S,
    )


def _select_followers(rows: list[int], jobs: Sequence[SimJob], logged: LoggedOutcomes) -> list[int]:
    pairs = [
        (row, int(logged.start[row] - logged.end[before]))
        for before, row in pairwise(rows)
        if jobs[row].submit < logged.end[before]
    ]
    prompt_starts = sum(0 <= gap <= _TIGHT_S for _, gap in pairs)
    is_chain = prompt_starts >= max(_SEVERAL, _MOSTLY * len(pairs))
    return [row for row, _ in pairs] if is_chain else []


def _sum_over(grid: Ints, begin: Ints, end: Ints, amount: Ints) -> Ints:
    """Sum the amounts of the jobs whose [begin, end) contains each point of the grid."""
    change = np.zeros(len(grid) + 1, np.int64)
    np.add.at(change, np.searchsorted(grid, begin), amount)
    np.add.at(change, np.searchsorted(grid, end), -amount)
    return np.cumsum(change)[:-1]


def _mark_pressure(
    grid: Ints, submit: Ints, start: Ints, users: Ints, rows: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Mark the instants at which jobs of several users waited, among these rows."""
    waiting = np.zeros(len(grid), np.int64)
    for user in np.unique(users[rows]):
        user_rows = rows & (users == user)
        ones = np.ones(user_rows.sum(), np.int64)
        waiting += _sum_over(grid, submit[user_rows], start[user_rows], ones) > 0
    return waiting >= _UNDER_PRESSURE


def _compute_widest(grid: Ints, submit: Ints, start: Ints, nodes: Ints) -> Ints:
    """Return the most nodes that a waiting job asks for, at each point of the grid."""
    widest = np.zeros(len(grid), np.int64)
    first, last = np.searchsorted(grid, submit), np.searchsorted(grid, start)
    for row in np.flatnonzero(nodes > 1):
        span = widest[first[row] : last[row]]
        np.maximum(span, nodes[row], out=span)
    return widest


def _build_blocks(
    grid: Ints, busy: Ints, pressure: NDArray[np.bool_], widest: Ints
) -> list[BusyBlock]:
    size = _BLOCK_S // _GRID_S
    blocks = []
    for i in range(0, len(grid), size):
        part = slice(i, i + size)
        busy_under_pressure = busy[part][pressure[part]]
        if len(busy_under_pressure) >= _MOST_OF_IT * size:
            nodes = float(np.quantile(busy_under_pressure, 0.9))
            blocks.append(BusyBlock(int(grid[i]), nodes, int(widest[part].max())))
    return blocks


def _group_runs(blocks: list[BusyBlock]) -> list[list[BusyBlock]]:
    """Group blocks of one level. A single block of another level belongs to the level around it."""
    runs: list[list[BusyBlock]] = []
    current: list[BusyBlock] = []
    aside: list[BusyBlock] = []
    for block in blocks:
        if current and block.at - (aside or current)[-1].at > 2 * DAY_S:
            runs.append(current)
            current, aside = [], []
        level = float(np.median([b.nodes for b in current])) if current else block.nodes
        if not block.compare_level(level):
            current, aside = [*current, block], []
            continue
        aside.append(block)
        if len(aside) >= _LASTING and len({b.compare_level(level) for b in aside}) == 1:
            runs.append(current)
            current, aside = aside, []
    runs.append(current)
    return [run for run in runs if len(run) >= _LASTING]


def _compute_height(run: list[BusyBlock]) -> int:
    """Return the most busy nodes of a level, without blocks in which jobs of drained nodes ran."""
    nodes = [block.nodes for block in run]
    middle = float(np.median(nodes))
    return round(max(n for n in nodes if n <= middle + _SAME))


def _join_levels(runs: list[list[BusyBlock]], grid: Ints, busy: Ints) -> Levels:
    levels: list[tuple[int, int]] = []
    heights = [_compute_height(run) for run in runs]
    for i, (run, height) in enumerate(zip(runs, heights, strict=True)):
        end = run[-1].at + _BLOCK_S
        until = runs[i + 1][0].at if i + 1 < len(runs) else int(grid[-1]) + _GRID_S
        levels.append((run[0].at, height))
        if until > end:
            most_busy = busy[(grid >= end) & (grid < until)].max(initial=0)
            levels.append((end, max(height, int(most_busy), *heights[i + 1 : i + 2])))
    changes = [pair for i, pair in enumerate(levels) if not i or levels[i - 1][1] != pair[1]]
    return tuple(changes)
