"""Find the least part of a case that differs.

`python -m tests.support.sim.shrink GROUP SEED [VERSION]`
"""

import sys
from collections.abc import Iterator
from dataclasses import fields, replace

from mirage.sim.types import Params, SimJob
from tests.integration.sim.cases import Case, case_of
from tests.integration.sim.compare import difference, looks_at

PLAIN_PARAMS = Params()
PLAIN_JOB = SimJob(time_limit_s=1, run_s=1)
KEPT = {"job_id", "submit", "time_limit_s", "run_s", "nodes", "cpus_per_node", "select_type"}
KEPT |= {"slurm_version"}


def shrunk(case: Case, look_at: int | None) -> Case:
    """Jobs, moves and settings taken away one at a time while a difference is left."""
    smaller: Case | None = case
    while smaller is not None:
        case = smaller
        smaller = next((c for c in _smaller(case) if difference(c, look_at) is not None), None)
    return case


def _smaller(case: Case) -> Iterator[Case]:
    injected = {m.args[0].job_id for m in case.moves if m.name == "inject"}
    for i in range(len(case.jobs) - 1, 0, -1):
        gone = case.jobs[i].job_id
        moves = tuple(m for m in case.moves if m.name == "set_node" or m.args[0] != gone)
        if gone not in injected:
            yield replace(case, jobs=case.jobs[:i] + case.jobs[i + 1 :], moves=moves)
    for i in range(len(case.moves)):
        yield replace(case, moves=case.moves[:i] + case.moves[i + 1 :])
    for name in _special(case.params, PLAIN_PARAMS):
        yield replace(case, params=replace(case.params, **{name: getattr(PLAIN_PARAMS, name)}))
    for i, job in enumerate(case.jobs):
        for name in _special(job, PLAIN_JOB):
            plain = replace(job, **{name: getattr(PLAIN_JOB, name)})
            yield replace(case, jobs=(*case.jobs[:i], plain, *case.jobs[i + 1 :]))


def _special(value: Params | SimJob, plain: Params | SimJob) -> list[str]:
    names = [f.name for f in fields(value) if f.name not in KEPT]
    if isinstance(value, Params) and len(value.partitions) > 1:
        names.remove("partitions")
    return [n for n in names if getattr(value, n) != getattr(plain, n)]


def _told(value: Params | SimJob, plain: Params | SimJob) -> str:
    names = sorted(KEPT & {f.name for f in fields(value)}) + _special(value, plain)
    if isinstance(value, Params) and "partitions" not in names:
        names.append("partitions")
    return ", ".join(f"{n}={getattr(value, n)!r}" for n in names)


def main(arguments: list[str]) -> int:
    group, seed = arguments[0], int(arguments[1])
    case = case_of(group, seed, "".join(arguments[2:]))
    look_at = looks_at(seed, case)
    if difference(case, look_at) is None:
        sys.stdout.write("No difference.\n")
        return 0
    small = shrunk(case, look_at)
    sys.stdout.write(f"Params({_told(small.params, PLAIN_PARAMS)})\n")
    for job in small.jobs:
        sys.stdout.write(f"SimJob({_told(job, PLAIN_JOB)})\n")
    for move in small.moves:
        sys.stdout.write(f"{move}\n")
    sys.stdout.write(f"looked at {look_at}: {difference(small, look_at)}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
