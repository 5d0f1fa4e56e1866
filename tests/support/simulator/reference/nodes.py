"""Which nodes a job takes (section 5)."""

from mirage.simulator.slurm_release import SlurmRelease
from tests.support.simulator.reference.cluster import Entry, Room


def choose_by_number(able: list[int], count: int, wanted: set[int]) -> tuple[int, ...]:
    """Lowest numbers first, those that eligible pinned jobs want last."""
    return tuple(sorted(sorted(able, key=lambda n: (n in wanted, n))[:count]))


def choose_by_name(
    able: list[int], count: int, rooms: list[Room], release: SlurmRelease, *, by_nodes: bool
) -> tuple[int, ...]:
    """Runs of consecutive numbers, the tightest first."""
    if release >= SlurmRelease.V26_05 and count == 1:
        return (min(able),)
    left = _runs(able)
    taken: list[int] = []
    while len(taken) < count:
        need = count - len(taken)
        run = _best(left, need, rooms, by_nodes=by_nodes)
        left.remove(run)
        taken += run[:need]
    return tuple(sorted(taken))


def _runs(able: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for n in sorted(able):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _best(runs: list[list[int]], need: int, rooms: list[Room], *, by_nodes: bool) -> list[int]:
    def cpus(run: list[int]) -> int:
        return len(run) if by_nodes else sum(rooms[n].cpus for n in run)

    enough = [run for run in runs if len(run) >= need]
    return min(enough, key=cpus) if enough else max(runs, key=cpus)


def choice(
    entry: Entry, able: list[int], rooms: list[Room], wanted: set[int] | None, release: SlurmRelease
) -> tuple[int, ...] | None:
    """The nodes for the job out of those that fit it; None: too few. `wanted` None: by name."""
    if entry.pinned:
        return entry.pinned if set(entry.pinned) <= set(able) else None
    if len(able) < entry.job.nodes:
        return None
    if wanted is None:
        alike = entry.job.gpus > 0 or release >= SlurmRelease.V24_11
        by_nodes = alike and not entry.whole
        return choose_by_name(able, entry.job.nodes, rooms, release, by_nodes=by_nodes)
    return choose_by_number(able, entry.job.nodes, wanted)
