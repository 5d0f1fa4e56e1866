"""A day of the real slurmctld, or any number of hours, and how well the simulator foretells it.

    python -m benchmarks.fidelity_day [--hours 24] [--priority fairshare] [--seed 11] [--keep OUT]

As root on a host where `deploy/testbed` may run; an hour of cluster time takes a minute. What was
recorded is judged at once and, with --keep, stays for `python -m tests.support.fidelity.judge`.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.fidelity import judge, record


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", default="24")
    parser.add_argument("--priority", choices=("age", "fairshare"), default="age")
    parser.add_argument("--seed", default="11")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        out = str(options.keep or Path(folder) / "run.json.gz")
        words = ["--hours", options.hours, "--priority", options.priority, "--seed", options.seed]
        record.main([out, "run", *words])
        return judge.main([out])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
