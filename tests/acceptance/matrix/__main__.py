"""Who may do what by which way, tried on a real Slurm.

`python -m tests.acceptance.matrix [--json]`

As root on Debian 12, best inside deploy/testbed/apart.sh. Exit code 1 where a cell is otherwise
than expected (tests/acceptance/matrix/expected.py).
"""

import argparse
import json
import sys
from dataclasses import asdict

from tests.acceptance.matrix import trying
from tests.acceptance.matrix.people import People
from tests.acceptance.matrix.shown import table
from tests.support.slurm_testbed import Testbed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.matrix", description=__doc__)
    parser.add_argument("--json", action="store_true", help="each cell as an object")
    parser.add_argument("--way", choices=tuple(trying.TRIALS), action="append")
    given = parser.parse_args()
    testbed = Testbed()
    was_up = testbed.is_up()
    try:
        with People.at(testbed) as people:
            found = trying.of_all(people, given.way, _say)
    finally:
        if not was_up:
            testbed.down()
    if given.json:
        rows = [asdict(each.expected) | {"found": each.found, "said": each.said} for each in found]
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
    else:
        sys.stdout.write(table(found) + "\n")
    return int(any(each.differs for each in found))


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
