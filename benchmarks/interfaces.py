"""What other programs hold on to, here beside another commit: prints what is gone, new, or else.

    python -m benchmarks.interfaces COMMIT             names: REST, commands, columns, metrics, ...
    python -m benchmarks.interfaces COMMIT --answers   answers of the REST API to the same requests

Names are listed by interface_probe.py, which runs in a checkout of COMMIT and in this one with this
Python. Descriptions, summaries and examples of openapi.json are left out.

With `--answers` the checkout of COMMIT fills a database and answers every GET of its document, as
nobody, as a user and as an admin. This checkout brings the same database to its own schema and
answers the same requests at the same fixed time. Texts with a space are sentences for people: their
changes are counted, and shown with `--sentences`.

The exit code is 1 if something is gone (names) or has another value (answers).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.against import CHECKOUT, check_out

PROBE = Path(__file__).with_name("interface_probe.py")


def probe(tree: Path, *words: str) -> Any:
    """What the probe prints in `tree`, as JSON; CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, str(PROBE), *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])  # the app may log before


def compare_names(tree: Path) -> int:
    then, now = probe(tree, "lists"), probe(CHECKOUT, "lists")
    gone_ever = 0
    for surface in then:
        gone = sorted(set(then[surface]) - set(now[surface]))
        new = sorted(set(now[surface]) - set(then[surface]))
        gone_ever += len(gone)
        print(f"{surface}: {len(then[surface])} then, {len(gone)} gone, {len(new)} new")
        for mark, lines in (("-", gone), ("+", new)):
            print(*(f"  {mark} {line}\n" for line in lines), sep="", end="")
    return int(gone_ever > 0)


def compare_answers(tree: Path, *, sentences: bool) -> int:
    with tempfile.TemporaryDirectory() as folder:
        database, recorded = Path(folder) / "mirage.db", Path(folder) / "answers.json"
        then = probe(tree, "fill", str(database))
        recorded.write_text(json.dumps(then))
        now = probe(CHECKOUT, "ask", str(database), str(recorded))
    counted = {"equal": 0, "new": 0, "sentence": 0, "gone": 0, "changed": 0}
    lines: list[str] = []
    for request in then:
        before, after = dict(flatten(then[request])), dict(flatten(now[request]))
        for where in sorted(before.keys() | after.keys()):
            kind = judge(before, after, where)
            counted[kind] += 1
            if kind != "equal" and (kind != "sentence" or sentences):
                lines.append(f"  {kind}: {request} {where}: "
                             f"{before.get(where, '')!r} -> {after.get(where, '')!r}")  # fmt: skip
    print(f"{len(then)} requests:", ", ".join(f"{n} values {kind}" for kind, n in counted.items()))
    print(*lines, sep="\n")
    return int(counted["gone"] + counted["changed"] > 0)


def judge(before: dict[str, Any], after: dict[str, Any], where: str) -> str:
    if where not in after:
        return "gone"
    if where not in before:
        return "new"
    if before[where] == after[where]:
        return "equal"
    prose = (
        isinstance(before[where], str) and " " in before[where] and isinstance(after[where], str)
    )
    return "sentence" if prose else "changed"


def flatten(node: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of an answer with its place, such as `body.items.0.chain_id`."""
    if isinstance(node, dict) and node:
        for key, inner in node.items():
            if key != "request_id":  # another one at each request
                yield from flatten(inner, f"{where}.{key}")
    elif isinstance(node, list) and node:
        for index, inner in enumerate(node):
            yield from flatten(inner, f"{where}.{index}")
    else:
        yield where[1:], node


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--answers", action="store_true")
    parser.add_argument("--sentences", action="store_true")
    asked = parser.parse_args()
    with check_out(asked.commit) as tree:
        if asked.answers:
            return compare_answers(tree, sentences=asked.sentences)
        return compare_names(tree)


if __name__ == "__main__":
    raise SystemExit(main())
