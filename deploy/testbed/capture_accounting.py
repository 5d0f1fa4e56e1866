"""Writes a real sacctmgr's answers about a coordinator who gives accounts hostile names, to
tests/data/slurm-RELEASE-accounting/.

Beside `capture.py`, because it asks with the argument vectors of `mirage.slurm` and so needs the
project's Python: `.venv/bin/python deploy/testbed/capture_accounting.py`, as root, seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

import clients  # noqa: E402 - after the path
import cluster  # noqa: E402
import release  # noqa: E402
from settings import Settings, TestbedError  # noqa: E402

from mirage.slurm.commands import sacctmgr  # noqa: E402

_ADD = ["sacctmgr", "-i", "add"]
_ACCOUNTS = (
    "q\nalice|none|students",
    "r|alice\nstudents|alice\nz",
    "s||||1|||||||||||||normal||\ntestbed|students|||99|||||||||||||normal||\ntestbed|s2",
    "bar|administrator|",
)
_USER = "x|none|\nbob|administrator|\nservices|alice\ny"


def main() -> int:
    try:
        with cluster.exclusively():
            cluster.up(Settings(speed=60))  # a cluster of its own
            _run([*_ADD, "coordinator", "account=research", "names=alice"], user="root")
            for account in _ACCOUNTS:
                _run([*_ADD, "account", account, "parent=research"], user="alice")
            _run([*_ADD, "user", _USER, "account=research"], user="alice")
            _run([*_ADD, "coordinator", "account=research", f"names={_USER}"], user="alice")
            _capture()
    except TestbedError as error:
        sys.stderr.write(f"capture_accounting: {error}\n")
        return 1
    return 0


def _capture() -> None:
    _folder().mkdir(parents=True, exist_ok=True)
    for level in sacctmgr.OPERATORS:
        _keep(f"level-{level.lower()}.txt", sacctmgr.build_show_level_argv(level))
    _keep("coordinators.txt", sacctmgr.build_show_coordinators_argv())
    for account in ("research", "services", "students"):
        _keep(f"coordinators-{account}.txt", sacctmgr.build_show_coordinators_argv(account))
    _keep("associations.txt", sacctmgr.build_show_associations_argv())


def _folder() -> Path:
    return release.data_folder("accounting")


def _keep(name: str, argv: Sequence[str]) -> None:
    (_folder() / name).write_text(_run(argv, user="mirage"))


def _run(argv: Sequence[str], *, user: str) -> str:
    process = clients.run(argv, user=user)
    if process.returncode != 0:
        raise TestbedError(f"{argv}: {process.stdout}{process.stderr.strip()}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
