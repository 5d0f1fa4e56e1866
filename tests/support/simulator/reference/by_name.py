"""Planning by name of the nodes, with maps of the nodes that are left (section 7)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from mirage.simulator.slurm_release import SlurmRelease, find_release
from mirage.simulator.types import Params
from tests.support.simulator.reference.cluster import (
    Entry,
    Node,
    fits,
    numbers_of,
    reserved,
    rooms_of,
)
from tests.support.simulator.reference.nodes import choose_nodes

WINDOW_S = 30


@dataclass
class Map:
    """Nodes that no plan has in [begin, end)."""

    begin: int
    end: int
    nodes: set[int]


@dataclass
class Maps:
    """The maps of one pass, in order, without gaps; neighbours differ."""

    maps: list[Map] = field(default_factory=list)
    joins_one: bool = False

    def lose(self, nodes: set[int], begin: int, end: int) -> None:
        begin, end = max(begin, self.maps[0].begin), min(end, self.maps[-1].end)
        if end <= begin:
            return
        self._cut(begin)
        self._cut(end)
        for m in self.maps:
            if begin <= m.begin and m.end <= end:
                m.nodes = m.nodes - nodes
        if self.joins_one:
            self._join_one(begin, end)
            return
        joined: list[Map] = []
        for m in self.maps:
            if joined and joined[-1].nodes == m.nodes:
                joined[-1].end = m.end
            else:
                joined.append(m)
        self.maps = joined

    def _join_one(self, begin: int, end: int) -> None:
        """Join one pair of equal neighbours, as 24.11 and later do.

        The search for the pair begins at the map before the one that ends where the loss begins.
        It ends with the map behind the loss.
        """
        first = max([i for i, m in enumerate(self.maps) if m.end == begin], default=0)
        first = max(first - 1, 0)
        for current, next_map in pairwise(self.maps[first:]):
            if current.begin >= end:
                return
            if current.nodes == next_map.nodes:
                current.end = next_map.end
                self.maps.remove(next_map)
                return

    def _cut(self, t: int) -> None:
        for i, m in enumerate(self.maps):
            if m.begin < t < m.end:
                self.maps[i : i + 1] = [Map(m.begin, t, m.nodes), Map(t, m.end, m.nodes)]
                return

    def find_usable(self, begin: int, end: int, nodes: set[int]) -> tuple[set[int], int | None]:
        """Return those of `nodes` that are in every map that meets [begin, end], and `later`."""
        remaining = [m for m in self.maps if m.end > begin]
        meeting = [m for m in remaining if m.begin <= end]
        searched = remaining[: len(meeting) + 1]
        following = remaining[1 : len(searched) + 1]
        gains = [m.end for m, n in zip(searched, following, strict=False) if n.nodes - m.nodes]
        for m in meeting:
            nodes = nodes & m.nodes
        return nodes, gains[0] if gains else None

    def free(self, begin: int, end: int, nodes: set[int]) -> bool:
        """Return whether `nodes` are in every map that meets [begin, end)."""
        return all(nodes <= m.nodes for m in self.maps if m.begin < end and m.end > begin)


@dataclass
class Plan:
    start: int
    nodes: tuple[int, ...]


class ByName:
    """One backfill pass's view of the future."""

    def __init__(self, params: Params, now: int, nodes: list[Node], running: list[Entry]) -> None:
        self.params = params
        self.now = now
        self.release = find_release(params.slurm_version)
        self.grid = params.bf_resolution_s
        self.horizon = now + params.bf_window_s
        end = self.horizon
        self.nodes = nodes
        up = {n.number for n in nodes if n.up}
        late = self.release >= SlurmRelease.V24_11
        if late:
            end = self.horizon // self.grid * self.grid
        self.maps = Maps([Map(now // self.grid * self.grid, end, up)], joins_one=late)
        for r in () if late else params.reservations:
            self.maps.lose(set(r.nodes or range(params.nodes)), max(now, r.start), r.end)
        self.running: list[Entry] = []
        self.set_running(running)

    def set_running(self, running: list[Entry]) -> None:
        """Take these running jobs, in the order of their ends."""
        self.running = sorted(running, key=lambda r: (r.end_by_limit, r.job_id))

    def _end(self, entry: Entry) -> int:
        return entry.end_by_limit if entry.end_by_limit > self.now else self.now + 1

    def plan(self, entry: Entry) -> Plan | None:
        start: int | None = self.now
        while start is not None:
            end = start + entry.job.time_limit_s
            usable, later = self.maps.find_usable(start, end, self._nodes_for(entry, start))
            first_fit = self._first_fit(entry, usable)
            start_at = None if first_fit is None else max(first_fit[0], start)
            if first_fit is None or start_at is None or (later is not None and start_at > later):
                start = later
                continue
            if start_at > self.horizon:
                return None
            if start_at == self.now or self.maps.free(
                *self._on_grid(entry, start_at), set(first_fit[1])
            ):
                return Plan(start_at, first_fit[1])
            start = start_at if start_at > start else later
        return None

    def _on_grid(self, entry: Entry, s: int) -> tuple[int, int]:
        return s // self.grid * self.grid, (s + entry.job.time_limit_s) // self.grid * self.grid

    def _nodes_for(self, entry: Entry, t: int) -> set[int]:
        up = {n for n in numbers_of(self.params, entry.partition) if self.nodes[n].up}
        return up - reserved(self.params, t, t + entry.job.time_limit_s)

    def _first_fit(self, entry: Entry, usable: set[int]) -> tuple[int, tuple[int, ...]] | None:
        nodes_now = self._choice(entry, usable, self.running)
        if nodes_now is not None:
            return self.now, nodes_now
        for t, remaining in self._list_search_ends(usable):
            nodes = self._choice(entry, usable, remaining)
            if nodes is not None:
                return t, nodes
        return None

    def _choice(
        self, entry: Entry, usable: set[int], running: list[Entry]
    ) -> tuple[int, ...] | None:
        rooms = rooms_of(self.nodes, running)
        fitting = [n for n in sorted(usable) if fits(self.nodes[n], rooms[n], entry)]
        return choose_nodes(entry, fitting, rooms, None, self.release)

    def _list_search_ends(self, usable: set[int]) -> Iterator[tuple[int, list[Entry]]]:
        """Yield the ends at which the search looks, each with the jobs that still run then."""
        remaining = list(self.running)
        first_end: int | None = None
        window, end = WINDOW_S, self.now
        for i, r in enumerate(self.running):
            if not usable & set(r.allocated):
                continue
            remaining.remove(r)
            end = self._end(r)
            first_end = end - end % WINDOW_S + WINDOW_S if first_end is None else first_end
            if i + 1 == len(self.running):
                break
            next_end = self._end(self.running[i + 1])
            if next_end > first_end + window:
                yield end, list(remaining)
                while next_end > first_end + window:
                    window *= 2
        yield end, remaining

    def start(self, entry: Entry) -> None:
        """Note that the job has started in this pass."""

    def take(self, entry: Entry, plan: Plan) -> None:
        self.maps.lose(set(plan.nodes), *self._on_grid(entry, plan.start))
