"""Planning by name as 24.11 and later do it (section 7, "By release")."""

from dataclasses import dataclass

from mirage.simulator.slurm_release import SlurmRelease
from mirage.simulator.types import Reservation
from tests.support.simulator.reference.by_name import WINDOW_S, ByName, Map, Plan
from tests.support.simulator.reference.cluster import Entry, meets


@dataclass
class SearchState:
    """The state of a search from one instant: the usable nodes, and the instant to begin anew."""

    begin: int
    usable: set[int]
    later: int | None


class BySlot(ByName):
    """The search begins anew at each `later`, and ends there."""

    def plan(self, entry: Entry) -> Plan | None:
        begin: int | None = self.now
        while begin is not None:
            begin = self._unhindered(entry, begin)
            if begin > self.maps.maps[-1].end:
                return None
            search = self._begin_search(entry, begin)
            plan = self._find_plan(entry, search)
            if plan is None:
                begin = search.later
            elif plan.start == self.now or self._free(entry, plan):
                return plan if plan.start <= self.horizon else None
            else:
                begin = plan.start + (self.grid if plan.start == begin else 0)
        return None

    def _free(self, entry: Entry, plan: Plan) -> bool:
        return self.maps.free(*self._on_grid(entry, plan.start), set(plan.nodes))

    def _on_grid(self, entry: Entry, s: int) -> tuple[int, int]:
        end = s + entry.job.time_limit_s
        return s // self.grid * self.grid, -(-end // self.grid) * self.grid

    def _begin_search(self, entry: Entry, begin: int) -> SearchState:
        end = begin + entry.job.time_limit_s
        usable = self._nodes_for(entry, begin)
        maps = [m for m in self.maps.maps if m.end > begin]
        for m in maps:
            if m.begin <= end:
                usable = usable & m.nodes
        laters = (self._later(entry, maps, end), self._reservation_over(entry, begin, end))
        return SearchState(begin, usable, min((t for t in laters if t is not None), default=None))

    def _reserved_nodes(self, reservation: Reservation) -> set[int]:
        return set(reservation.nodes or range(self.params.nodes))

    def _unhindered(self, entry: Entry, begin: int) -> int:
        """Return the first instant from `begin` on that no reservation forbids altogether.

        A reservation does if it keeps every node, or a pinned one of a job of whole nodes.
        """
        for r in self.params.reservations:
            if not meets(r.start, r.end, begin, begin + entry.job.time_limit_s):
                continue
            pinned = set(entry.pinned) if entry.whole else set()
            if (
                len(self._reserved_nodes(r)) == self.params.nodes
                or self._reserved_nodes(r) & pinned
            ):
                return self._unhindered(entry, r.end)
        return begin

    def _reservation_over(self, entry: Entry, begin: int, end: int) -> int | None:
        """Return a second after the next end of a reservation, if one keeps a node from the job."""
        members = set(self._members(entry))
        reservations = self.params.reservations
        if not any(
            meets(r.start, r.end, begin, end) and self._reserved_nodes(r) & members
            for r in reservations
        ):
            return None
        next_end = min(r.end for r in reservations if r.end >= begin)
        over = -(-next_end // self.grid) * self.grid + 1
        return over if over < self.maps.maps[-1].end else None

    def _later(self, entry: Entry, maps: list[Map], end: int) -> int | None:
        up_members = {n for n in self._members(entry) if self.nodes[n].up}
        for i in range(len(maps) - 1):
            if (maps[i + 1].nodes - maps[i].nodes) & up_members:
                return maps[i].end
            if maps[i].begin > end:
                return maps[i + 1].end if i + 2 < len(maps) else None
        return None

    def _members(self, entry: Entry) -> tuple[int, ...]:
        return entry.partition.nodes or tuple(range(self.params.nodes))

    def _find_plan(self, entry: Entry, search: SearchState) -> Plan | None:
        """Return the first plan from `begin` on that does not start after `later`."""

        def is_gone(r: Entry) -> bool:
            end = self._end(r)
            return end < search.begin or (
                self.release >= SlurmRelease.V26_05 and end == search.begin
            )

        remaining = [r for r in self.running if not is_gone(r)]
        nodes = self._choice(entry, search.usable, remaining)
        if nodes is not None:
            return Plan(search.begin, nodes)
        return self._after_ends(entry, search, remaining)

    def _after_ends(self, entry: Entry, search: SearchState, running: list[Entry]) -> Plan | None:
        remaining, ended = list(running), list[Entry]()
        anchor: int | None = None
        window = WINDOW_S
        for i, r in enumerate(running):
            if search.later is not None and self._end(r) > search.later:
                break
            if not search.usable & set(r.allocated):
                continue
            remaining.remove(r)
            ended.append(r)
            if anchor is None:
                anchor = (self._end(r) // WINDOW_S + 1) * WINDOW_S
            later_jobs = running[i + 1 :]
            if later_jobs and self._end(later_jobs[0]) <= anchor + window:
                continue
            nodes = self._choice(entry, search.usable, remaining)
            if nodes is not None:
                return Plan(self._start(nodes, ended), nodes)
            while later_jobs and self._end(later_jobs[0]) > anchor + window:
                window *= 2
        nodes = self._choice(entry, search.usable, remaining) if ended else None
        return None if nodes is None else Plan(self._start(nodes, ended), nodes)

    def _start(self, nodes: tuple[int, ...], ended: list[Entry]) -> int:
        """Return the end of the last job that had to end before this one can start."""
        if self.release >= SlurmRelease.V26_05:
            ended = [r for r in ended if set(r.allocated) & set(nodes)]
        return self._end(ended[-1])

    def start(self, entry: Entry) -> None:
        """A whole-node job's nodes are lost to the end of its limit."""
        if entry.whole:
            _, end = self._on_grid(entry, self.now)
            self.maps.lose(set(entry.allocated), self.maps.maps[0].begin, end)
