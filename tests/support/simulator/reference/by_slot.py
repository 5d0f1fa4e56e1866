"""Planning by name as 24.11 and later do it (section 7, "By release")."""

from dataclasses import dataclass

from mirage.simulator.slurm_release import SlurmRelease
from mirage.simulator.types import Reservation
from tests.support.simulator.reference.by_name import WINDOW_S, ByName, Map, Plan
from tests.support.simulator.reference.cluster import Entry, meets


@dataclass
class Look:
    """What a search from one instant knows."""

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
            look = self._look(entry, begin)
            plan = self._found(entry, look)
            if plan is None:
                begin = look.later
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

    def _look(self, entry: Entry, begin: int) -> Look:
        end = begin + entry.job.time_limit_s
        usable = self._nodes_for(entry, begin)
        left = [m for m in self.maps.maps if m.end > begin]
        for m in left:
            if m.begin <= end:
                usable = usable & m.nodes
        laters = (self._later(entry, left, end), self._reservation_over(entry, begin, end))
        return Look(begin, usable, min((t for t in laters if t is not None), default=None))

    def _kept(self, r: Reservation) -> set[int]:
        return set(r.nodes or range(self.params.nodes))

    def _unhindered(self, entry: Entry, begin: int) -> int:
        """Past those that keep every node, or one that a job of whole nodes must have."""
        for r in self.params.reservations:
            if not meets(r.start, r.end, begin, begin + entry.job.time_limit_s):
                continue
            wanted = set(entry.pinned) if entry.whole else set()
            if len(self._kept(r)) == self.params.nodes or self._kept(r) & wanted:
                return self._unhindered(entry, r.end)
        return begin

    def _reservation_over(self, entry: Entry, begin: int, end: int) -> int | None:
        """A second after the next end of a reservation, where one keeps a node from the job."""
        mine = set(self._members(entry))
        every = self.params.reservations
        if not any(meets(r.start, r.end, begin, end) and self._kept(r) & mine for r in every):
            return None
        soonest = min(r.end for r in every if r.end >= begin)
        over = -(-soonest // self.grid) * self.grid + 1
        return over if over < self.maps.maps[-1].end else None

    def _later(self, entry: Entry, left: list[Map], end: int) -> int | None:
        mine = {n for n in self._members(entry) if self.nodes[n].up}
        for i in range(len(left) - 1):
            if (left[i + 1].nodes - left[i].nodes) & mine:
                return left[i].end
            if left[i].begin > end:
                return left[i + 1].end if i + 2 < len(left) else None
        return None

    def _members(self, entry: Entry) -> tuple[int, ...]:
        return entry.partition.nodes or tuple(range(self.params.nodes))

    def _found(self, entry: Entry, look: Look) -> Plan | None:
        """The first start from `begin` on that is not after `later`."""

        def is_gone(r: Entry) -> bool:
            end = self._end(r)
            return end < look.begin or (self.release >= SlurmRelease.V26_05 and end == look.begin)

        left = [r for r in self.running if not is_gone(r)]
        nodes = self._choice(entry, look.usable, left)
        if nodes is not None:
            return Plan(look.begin, nodes)
        return self._after_ends(entry, look, left)

    def _after_ends(self, entry: Entry, look: Look, running: list[Entry]) -> Plan | None:
        left, gone = list(running), list[Entry]()
        anchor: int | None = None
        window = WINDOW_S
        for i, r in enumerate(running):
            if look.later is not None and self._end(r) > look.later:
                break
            if not look.usable & set(r.allocated):
                continue
            left.remove(r)
            gone.append(r)
            if anchor is None:
                anchor = (self._end(r) // WINDOW_S + 1) * WINDOW_S
            behind = running[i + 1 :]
            if behind and self._end(behind[0]) <= anchor + window:
                continue
            nodes = self._choice(entry, look.usable, left)
            if nodes is not None:
                return Plan(self._start(nodes, gone), nodes)
            while behind and self._end(behind[0]) > anchor + window:
                window *= 2
        nodes = self._choice(entry, look.usable, left) if gone else None
        return None if nodes is None else Plan(self._start(nodes, gone), nodes)

    def _start(self, nodes: tuple[int, ...], gone: list[Entry]) -> int:
        """The end of the last of those that had to go."""
        if self.release >= SlurmRelease.V26_05:
            gone = [r for r in gone if set(r.allocated) & set(nodes)]
        return self._end(gone[-1])

    def start(self, entry: Entry) -> None:
        """A whole-node job's nodes are lost to the end of its limit."""
        if entry.whole:
            _, end = self._on_grid(entry, self.now)
            self.maps.lose(set(entry.allocated), self.maps.maps[0].begin, end)
