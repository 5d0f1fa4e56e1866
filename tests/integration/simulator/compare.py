"""Compare the simulator with the reference on random cases.

`python -m tests.integration.simulator.compare [--slurm 24.11] FIRST LAST [GROUP ...]`

Prints each case that differs in one line (the first job that does, by start) and a count; exit 1
on differences.
"""

import argparse
import sys
from collections.abc import Iterator

from tests.integration.simulator.cases import GROUPS, Case, case_of
from tests.integration.simulator.runs import Outcome, by_reference, by_simulator


def difference(case: Case, look_at: int | None = None) -> str | None:
    """What differs first, in words; None: nothing does."""
    ours, reference = by_simulator(case, look_at), by_reference(case, look_at)
    return None if ours == reference else _words(case, ours, reference)


def _words(case: Case, ours: Outcome, reference: Outcome) -> str:
    where = f"{case.group} {case.seed} ({len(case.jobs)} jobs, t0 {case.jobs[0].submit}):"
    wrong = [i for i, life in reference.jobs.items() if ours.jobs.get(i) != life]
    if wrong:
        first = min(wrong, key=lambda i: _when(ours, reference, i))
        lives = f"{ours.jobs[first]}, reference {reference.jobs[first]}"
        return f"{where} job {first}: {lives}; {len(wrong)} differ"
    if ours.refused != reference.refused:
        moves = [case.moves[i] for i in set(ours.refused) ^ set(reference.refused)]
        return f"{where} moves refused by one only: {moves}"
    if ours.order != reference.order:
        return f"{where} order {ours.order}, reference {reference.order}"
    plans = set(ours.plan.items()) ^ set(reference.plan.items())
    return f"{where} plans {sorted(plans)}"


def _when(ours: Outcome, reference: Outcome, job_id: int) -> int:
    times = (*ours.jobs[job_id][:2], *reference.jobs[job_id][:2])
    return min((t for t in times if t is not None), default=0)


def looks_at(seed: int, case: Case) -> int | None:
    """Every fourth case is also asked for its plan, at an instant of its first 40 minutes; of the
    releases' group each, while much is planned."""
    if case.group == "releases":
        return case.jobs[0].submit + seed * 37 % 600
    return case.jobs[0].submit + seed * 37 % 2400 if seed % 4 == 0 else None


def differences(
    first: int, last: int, groups: tuple[str, ...] = GROUPS, version: str = ""
) -> Iterator[str]:
    """Of the seeds first..last in each group."""
    for seed in range(first, last + 1):
        for group in groups:
            case = case_of(group, seed, version)
            found = difference(case, looks_at(seed, case))
            if found is not None:
                yield found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("groups", nargs="*", default=GROUPS)
    parser.add_argument("--slurm", default="", metavar="VERSION")
    options = parser.parse_args(arguments)
    first, last, groups = options.first, options.last, tuple(options.groups)
    count = 0
    for found in differences(first, last, groups, options.slurm):
        count += 1
        sys.stdout.write(f"{found}\n")
    sys.stdout.write(f"{count} of {(last - first + 1) * len(groups)} cases differ\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
