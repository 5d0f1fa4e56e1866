"""What a command costs here beside what it cost at another commit: CPU time, as a ratio.

    python -m benchmarks.against COMMIT -- -m mirage --help
    python -m benchmarks.against COMMIT --rounds 5 -- -m benchmarks.simulator --only whole_nodes

COMMIT is checked out into a temporary folder. This Python runs the words after `--` in that folder
and in this checkout, in turn, with the order reversed each round, so that both meet the same noise.
A round that one side fails ends the comparison with that side's errors. Compared are the user and
system seconds of the command and of all of its children that ended: on a machine with other work
they vary less than the time by the clock. The first run of each side, which compiles and fills
caches, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """A worktree of `commit` in a temporary folder, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="mirage-against-") as folder:
        tree = Path(folder) / "checkout"
        git = ["git", "-C", str(CHECKOUT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure_cpu(tree: Path, words: Sequence[str]) -> float:
    """User and system seconds of `python WORDS` in `tree`; CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        check=True,
        capture_output=True,
        text=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare(commit: str, words: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each round by side: `then` at `commit`, and `now`."""
    seconds: dict[str, list[float]] = {"then": [], "now": []}
    with check_out(commit) as tree:
        sides = [("then", tree), ("now", CHECKOUT)]
        for _, tree_of_side in sides:
            measure_cpu(tree_of_side, words)
        for number in range(rounds):
            for side, tree_of_side in sides if number % 2 else reversed(sides):
                seconds[side].append(measure_cpu(tree_of_side, words))
                print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("words", nargs="+", metavar="WORD", help="what python runs, after --")
    options = parser.parse_args()
    try:
        seconds = compare(options.commit, options.words, options.rounds)
    except subprocess.CalledProcessError as error:
        print(f"{error}\n{error.stderr or ''}", file=sys.stderr)
        return 1
    median = {side: statistics.median(seconds_by_side) for side, seconds_by_side in seconds.items()}
    least = {side: min(seconds_by_side) for side, seconds_by_side in seconds.items()}
    if options.json:
        print(json.dumps(seconds))
    else:
        print(f"{'CPU seconds':14}{'median':>9}{'least':>9}")
        for side in seconds:
            print(f"{side:14}{median[side]:9.3f}{least[side]:9.3f}")
        ratios = [
            seconds_by_side["now"] / seconds_by_side["then"] for seconds_by_side in (median, least)
        ]
        print(f"{'now / then':14}{ratios[0]:9.3f}{ratios[1]:9.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
