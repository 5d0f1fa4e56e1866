"""Which tests of another commit are no longer here: names, assertions, and what they became.

    python -m benchmarks.tests_gone COMMIT              tests without a successor
    python -m benchmarks.tests_gone COMMIT --renamed    also those of another name, with how alike
    python -m benchmarks.tests_gone COMMIT --thinner    also those with fewer checks or cases

A test is a function whose name begins with `test`. A test of COMMIT is still here if a test of its
name is here. Else its successor is the test with the most similar words among those that have a new
name: the share of equal words (difflib) is at least LIKENESS. A check is an `assert`, or a call of
`raises` or `warns`. Cases are counted where `parametrize` has a list in the file itself.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.against import CHECKOUT, check_out

LIKENESS = 0.6


@dataclass(frozen=True, slots=True)
class Test:
    """`words` are those of its name, body and decorators; `checks` counts its assertions.

    `cases` is the product of the lengths of its lists of parameters.
    """

    file: str
    name: str
    words: tuple[str, ...]
    checks: int
    cases: int

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


def list_tests(tree: Path) -> Iterator[Test]:
    for path in sorted((tree / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
                "test"
            ):
                text = ast.unparse(node)
                words = tuple(word for word in re.split(r"[^A-Za-z0-9]+", text) if word)
                checks = len(re.findall(r"^\s*assert\b|\b(?:raises|warns)\(", text, re.MULTILINE))
                file = str(path.relative_to(tree))
                yield Test(file, node.name, words, checks, count_cases(node))


def count_cases(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lists = [
        call.args[1]
        for call in node.decorator_list
        if isinstance(call, ast.Call) and "parametrize" in ast.unparse(call.func)
        if len(call.args) > 1
    ]
    return math.prod(len(one.elts) for one in lists if isinstance(one, ast.List | ast.Tuple))


def match_tests(then: list[Test], now: list[Test]) -> tuple[list[tuple[Test, Test, float]], ...]:
    """Pairs of the same name, pairs of another name, each with how alike; the rest is gone."""
    rest = defaultdict(list)
    for test in now:
        rest[test.name].append(test)
    same, lost = [], []
    for test in then:
        if found := rest[test.name]:
            best = max(found, key=lambda other: measure_likeness(test, other))
            found.remove(best)
            same.append((test, best, measure_likeness(test, best)))
        else:
            lost.append(test)
    free = [test for tests in rest.values() for test in tests]
    pairs = [
        (measure_likeness(a, b), i, j)
        for i, a in enumerate(lost)
        for j, b in enumerate(free)
        if bound_likeness(a, b) >= LIKENESS
    ]
    renamed, used = {}, set()
    for likeness, i, j in sorted(pairs, reverse=True):
        if likeness >= LIKENESS and i not in renamed and j not in used:
            renamed[i] = (lost[i], free[j], likeness)
            used.add(j)
    return (
        same,
        list(renamed.values()),
        [(t, t, 0.0) for i, t in enumerate(lost) if i not in renamed],
    )


def bound_likeness(one: Test, other: Test) -> float:
    """Not less than the likeness, and quick: words in common in any order."""
    common = (Counter(one.words) & Counter(other.words)).total()
    return 2 * common / max(1, len(one.words) + len(other.words))


def measure_likeness(one: Test, other: Test) -> float:
    return difflib.SequenceMatcher(None, one.words, other.words, autojunk=False).ratio()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--renamed", action="store_true")
    parser.add_argument("--thinner", action="store_true")
    asked = parser.parse_args()
    with check_out(asked.commit) as tree:
        then = list(list_tests(tree))
    now = list(list_tests(CHECKOUT))
    same, renamed, gone = match_tests(then, now)
    print(f"then {len(then)} tests with {sum(test.checks for test in then)} checks")
    print(f"now  {len(now)} tests with {sum(test.checks for test in now)} checks")
    print(f"same name {len(same)}, another name {len(renamed)}, gone {len(gone)}")
    for test, _, _ in gone:
        print(f"gone: {test}")
    if asked.renamed:
        for test, other, likeness in renamed:
            print(f"renamed: {test} -> {other} ({likeness:.0%})")
    if asked.thinner:
        for test, other, likeness in [*same, *renamed]:
            for what in ("checks", "cases"):
                before, after = getattr(test, what), getattr(other, what)
                if after < before:
                    print(f"{before} -> {after} {what}: {test} -> {other} ({likeness:.0%})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
