"""`python -m benchmarks.against`: the same words here and at another commit."""

import json
import subprocess
import sys

from tests.support.paths import CHECKOUT


def against(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.against", "HEAD", *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_round_of_both_sides_is_counted() -> None:
    done = against("--rounds", "2", "--json", "--", "-c", "sum(range(10**6))")
    found = json.loads(done.stdout)
    assert sorted(found) == ["now", "then"]
    assert all(len(seconds) == 2 and min(seconds) > 0 for seconds in found.values())


def test_a_side_that_fails_ends_the_comparison_with_its_errors() -> None:
    done = against("--rounds", "1", "--", "-c", "raise SystemExit('no such workload')")
    assert done.returncode == 1
    assert "no such workload" in done.stderr
    listed = ["git", "-C", str(CHECKOUT), "worktree", "list"]
    left = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert "mirage-against-" not in left
