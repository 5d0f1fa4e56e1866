"""Planning by name of the nodes, with maps of what is left (section 7)."""

from dataclasses import dataclass, field

from mirage.sim.types import Params
from tests.sim.reference.cluster import (
    Entry,
    Node,
    Room,
    fits,
    meets,
    numbers_of,
    reserved,
    rooms_of,
)
from tests.sim.reference.nodes import choice

GROUP_S = 30


@dataclass
class Map:
    """Nodes that no plan and no reservation has in [begin, end)."""

    begin: int
    end: int
    nodes: set[int]


@dataclass
class Maps:
    """The maps of one pass, in order, without gaps."""

    maps: list[Map] = field(default_factory=list)

    def lose(self, nodes: set[int], begin: int, end: int) -> None:
        if end <= begin:
            return
        self._cut(begin)
        self._cut(end)
        for m in self.maps:
            if begin <= m.begin and m.end <= end:
                m.nodes = m.nodes - nodes

    def _cut(self, t: int) -> None:
        for i, m in enumerate(self.maps):
            if m.begin < t < m.end:
                self.maps[i : i + 1] = [Map(m.begin, t, m.nodes), Map(t, m.end, m.nodes)]
                return

    def common(self, begin: int, end: int, nodes: set[int]) -> set[int]:
        """Those of `nodes` that are in every map that meets [begin, end)."""
        for m in self.maps:
            if meets(begin, end, m.begin, m.end):
                nodes = nodes & m.nodes
        return nodes

    def later(self, t: int) -> int | None:
        """The end of the first map that ends after t, if another follows."""
        for m in self.maps[:-1]:
            if m.end > t:
                return m.end
        return None


@dataclass
class Plan:
    start: int
    nodes: tuple[int, ...]


class ByName:
    """One backfill pass's view of the future."""

    def __init__(self, params: Params, now: int, nodes: list[Node], running: list[Entry]) -> None:
        self.params = params
        self.now = now
        self.horizon = now + params.bf_window_s
        self.nodes = nodes
        up = {n.number for n in nodes if n.up}
        self.maps = Maps([Map(now, self.horizon, up)])
        for r in params.reservations:
            begin, end = max(now, r.start), min(self.horizon, r.end)
            self.maps.lose(set(r.nodes or range(params.nodes)), begin, end)
        self.steps: list[tuple[int, list[Room]]] = []
        self.look_at(running)

    def look_at(self, running: list[Entry]) -> None:
        """Now and the ends of the groups, each with what is then free."""
        self.steps = [(self.now, rooms_of(self.nodes, running))]
        left = [(self._end(r), r) for r in running]
        while left:
            first = min(end for end, _ in left)
            group = [end for end, _ in left if end <= first + GROUP_S]
            left = [(end, r) for end, r in left if end > first + GROUP_S]
            self.steps.append((max(group), rooms_of(self.nodes, [r for _, r in left])))

    def _end(self, entry: Entry) -> int:
        return entry.end_by_limit if entry.end_by_limit > self.now else self.now + 1

    def plan(self, entry: Entry) -> Plan | None:
        start: int | None = self.now
        while start is not None:
            later = self.maps.later(start)
            plan = self._plan_from(entry, start, later)
            if plan is not None:
                return plan if plan.start <= self.horizon else None
            start = later
        return None

    def _plan_from(self, entry: Entry, start: int, later: int | None) -> Plan | None:
        """Points 1 to 6 from one `from`; None: go on from `later`."""
        end = start + entry.job.time_limit_s
        usable = self.maps.common(start, end, self._nodes_for(entry, start))
        found = self._first_fit(entry, usable)
        if found is None:
            return None
        t, nodes = found
        s = max(t, start)
        if s > self.now and later is not None and s > later:
            return None
        missing = set(nodes) - self.maps.common(s, s + entry.job.time_limit_s, set(nodes))
        if s <= self.horizon and s > self.now and missing:
            return None
        return Plan(s, nodes)

    def _nodes_for(self, entry: Entry, t: int) -> set[int]:
        up = {n for n in numbers_of(self.params, entry.partition) if self.nodes[n].up}
        return up - reserved(self.params, t, t + entry.job.time_limit_s)

    def _first_fit(self, entry: Entry, usable: set[int]) -> tuple[int, tuple[int, ...]] | None:
        for t, rooms in self.steps:
            able = [n for n in sorted(usable) if fits(self.nodes[n], rooms[n], entry)]
            nodes = choice(entry, able, rooms, None)
            if nodes is not None:
                return t, nodes
        return None

    def take(self, entry: Entry, plan: Plan) -> None:
        grid = self.params.bf_resolution_s
        begin = max(self.now, plan.start // grid * grid)
        end = (plan.start + entry.job.time_limit_s) // grid * grid
        self.maps.lose(set(plan.nodes), begin, end)
