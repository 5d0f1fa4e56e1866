"""The simulator's answers on seeded cases, each part of them frozen as one SHA-256.

After a wanted change of the simulator, `python -m tests.integration.simulator.frozen_cases` writes
tests/data/simulator-cases.json anew: the diff names the parts that moved. With the name of a part,
such as `"names 24.11"`, the command prints that part's answers, one case a line: compare the lines
of two commits to find the case.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from benchmarks import simulator_workloads as workloads
from mirage.errors import ClusterRefused
from mirage.simulator.simulator import Simulator
from mirage.simulator.slurm_release import SlurmRelease
from mirage.simulator.types import Params, SimJob
from tests.integration.simulator.cases import GROUPS, Case, case_of
from tests.support.paths import DATA
from tests.support.simulator.views import list_pending_ids

DIGESTS = DATA / "simulator-cases.json"
SEEDS = dict.fromkeys(GROUPS, 250) | {"releases": 500}
FIRST_CASES = "first eight of each group"


def play_group(group: str, version: str = "", *, seeds: int = 0) -> Iterator[str]:
    """Play the first `seeds` cases of the group, by default all that are frozen."""
    for seed in range(seeds or SEEDS[group]):
        case = case_of(group, seed, version)
        yield _format(group, seed, *_play(case, _pick_look(case)))


def play_site_by_number() -> Iterator[str]:
    """Play a large site that is planned by number.

    The short PriorityMaxAge lets ages saturate, which reorders the queue between events.
    """
    table = workloads.generate_whole_nodes(200, 1.05, seed=1)
    params = workloads.build_whole_node_params(priority_max_age_s=6 * 3600, default_queue_depth=3)
    return _play_site(params, workloads.build_jobs(table))


def play_site_by_name(version: str) -> Iterator[str]:
    """Play a large site that is planned by name."""
    table = workloads.generate_named_nodes(200, 1.05, seed=1)
    params = workloads.build_named_node_params(version, default_queue_depth=3)
    names = np.array([one.name for one in params.partitions])[table.partition].tolist()
    jobs = zip(workloads.build_jobs(table), names, strict=True)
    return _play_site(params, [replace(job, partition=name) for job, name in jobs])


def list_cases() -> Iterator[str]:
    """List the cases themselves: another Python or numpy might draw others."""
    return (repr(case_of(group, seed)) for group in GROUPS for seed in range(SEEDS[group]))


PARTS: dict[str, Callable[[], Iterable[str]]] = {
    "the cases themselves": list_cases,
    FIRST_CASES: lambda: chain.from_iterable(play_group(group, seeds=8) for group in GROUPS),
    "large site by number": play_site_by_number,
    **{
        f"large site by name {release}": partial(play_site_by_name, str(release))
        for release in SlurmRelease
    },
    **{
        f"{group} {release}": partial(play_group, group, str(release))
        for group in GROUPS
        for release in SlurmRelease
    },
}


def compute_digest(lines: Iterable[str]) -> str:
    """Compute the SHA-256 of a part's lines, each with its end."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _pick_look(case: Case) -> int | None:
    """Every fourth case is also asked for its plan and its order, at an instant of its first 40
    minutes; of the releases' group each, while much is planned."""
    if case.group == "releases":
        return case.jobs[0].submit + case.seed * 37 % 600
    return case.jobs[0].submit + case.seed * 37 % 2400 if case.seed % 4 == 0 else None


def _play(case: Case, look_at: int | None) -> tuple[Any, ...]:
    """Start, end and state of each job; the moves refused; plan and order at `look_at`."""
    sim = Simulator(case.params, case.jobs)
    refused: list[int] = []
    look: tuple[Any, ...] = ()
    for i, move in enumerate(case.moves):
        if look_at is not None and look_at < move.at:
            look, look_at = _look(sim, look_at), None
        sim.advance(move.at)
        try:
            getattr(sim, move.name)(*move.args, **move.options)
        except ClusterRefused:
            refused.append(i)
    if look_at is not None:
        look = _look(sim, look_at)
    sim.advance(case.until)
    injected = [move.args[0].job_id for move in case.moves if move.name == "inject"]
    ids = sorted(job.job_id for job in case.jobs) + injected
    return [_get_life(sim, number) for number in ids], refused, look


def _look(sim: Simulator, at: int) -> tuple[Any, ...]:
    sim.advance(at)
    return sorted(sim.compute_planned_starts().items()), list_pending_ids(sim)


def _get_life(sim: Simulator, job_id: int) -> tuple[Any, ...]:
    record = sim.find(job_id)
    return (job_id,) if record is None else (job_id, record.start, record.end, str(record.state))


def _play_site(params: Params, jobs: list[SimJob]) -> Iterator[str]:
    """The start of each job."""
    sim = Simulator(params, jobs)
    sim.run_out()
    numbers = (job.job_id for job in jobs)
    return (_format(*pair) for pair in zip(numbers, sim.start.tolist(), strict=True))


def _format(*answers: Any) -> str:
    return json.dumps(answers, separators=(",", ":"))


def main(parts: list[str]) -> None:
    if parts:
        sys.stdout.writelines(f"{line}\n" for part in parts for line in PARTS[part]())
        return
    digests = {part: compute_digest(lines()) for part, lines in PARTS.items()}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
