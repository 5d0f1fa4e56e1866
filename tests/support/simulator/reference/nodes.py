"""Which nodes a job takes (section 5)."""

from mirage.simulator.slurm_release import SlurmRelease
from tests.support.simulator.reference.cluster import Entry, Room


def choose_by_number(fitting: list[int], count: int, pinned: set[int]) -> tuple[int, ...]:
    """Choose the lowest numbers; nodes that eligible pinned jobs want come last."""
    return tuple(sorted(sorted(fitting, key=lambda n: (n in pinned, n))[:count]))


def choose_by_name(
    fitting: list[int], count: int, rooms: list[Room], release: SlurmRelease, *, by_nodes: bool
) -> tuple[int, ...]:
    """Choose runs of consecutive numbers, the tightest run first."""
    if release >= SlurmRelease.V26_05 and count == 1:
        return (min(fitting),)
    runs = _runs(fitting)
    chosen: list[int] = []
    while len(chosen) < count:
        missing = count - len(chosen)
        run = _best(runs, missing, rooms, by_nodes=by_nodes)
        runs.remove(run)
        chosen += run[:missing]
    return tuple(sorted(chosen))


def _runs(fitting: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for n in sorted(fitting):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def _best(runs: list[list[int]], missing: int, rooms: list[Room], *, by_nodes: bool) -> list[int]:
    def cpus(run: list[int]) -> int:
        return len(run) if by_nodes else sum(rooms[n].cpus for n in run)

    sufficient = [run for run in runs if len(run) >= missing]
    return min(sufficient, key=cpus) if sufficient else max(runs, key=cpus)


def choose_nodes(
    entry: Entry,
    fitting: list[int],
    rooms: list[Room],
    pinned: set[int] | None,
    release: SlurmRelease,
) -> tuple[int, ...] | None:
    """Choose the job's nodes among those that fit it; None: there are too few.

    `pinned`: the nodes that eligible pinned jobs want; None: the choice is by name.
    """
    if entry.pinned:
        return entry.pinned if set(entry.pinned) <= set(fitting) else None
    if len(fitting) < entry.job.nodes:
        return None
    if pinned is None:
        may_count_nodes = entry.job.gpus > 0 or release >= SlurmRelease.V24_11
        by_nodes = may_count_nodes and not entry.whole
        return choose_by_name(fitting, entry.job.nodes, rooms, release, by_nodes=by_nodes)
    return choose_by_number(fitting, entry.job.nodes, pinned)
