"""Writes what a real Slurm answers to Mirage's own queries to tests/data/slurm-RELEASE-queries/.

Beside `capture.py`, because it asks with the argument vectors of `mirage.slurm` and so needs the
project's Python: `.venv/bin/python deploy/testbed/capture_queries.py`, as root, about a minute.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

import clients  # noqa: E402 - after the path
import clock  # noqa: E402
import cluster  # noqa: E402
import release  # noqa: E402
import workload  # noqa: E402
from settings import Settings, TestbedError  # noqa: E402

from mirage.domain.job import JobId  # noqa: E402
from mirage.slurm.clients.cli.command_runner import PLAIN_ANSWERS  # noqa: E402
from mirage.slurm.commands import sacct, scontrol, sinfo, squeue  # noqa: E402

_SEPARATOR = "\x1f7e57\x1f"
_SPEED = 60
_PREFACE = f"""\
# Answers of a real {{release}} to Mirage's own queries

Written by `deploy/testbed/capture_queries.py` on the testbed at {_SPEED} times the clock, not to be
edited. Fields end in the bytes `1f 37 65 35 37 1f`. `jobs.json` says which fate became which job id
(`workload.py` says how). `expected.json` is by hand: what tests expect of this release alone.
"""
_HOSTILE = {
    "hostile-newline": "first line\nsecond | line\n",
    "hostile-separator": "with\x1fseparator\x1e and\ttab",
    "hostile-long": "x" * 300,
}


def main() -> int:
    try:
        with cluster.exclusively():
            # A new cluster, and one that remembers ended jobs for hours.
            cluster.up(Settings(speed=_SPEED, extra=("MinJobAge=14400",)))
            _capture(_submit())
    except TestbedError as error:
        sys.stderr.write(f"capture_queries: {error}\n")
        return 1
    return 0


def _submit() -> workload.Jobs:
    hostile = {
        name: workload.sbatch(
            "alice", "-t", "5", f"--comment={text}", "-J", text, run="sleep 60\n# two lines"
        )
        for name, text in _HOSTILE.items()
    }
    return hostile | workload.submit()


def _capture(jobs: workload.Jobs) -> None:
    _folder().mkdir(parents=True, exist_ok=True)
    now = int(clock.now())
    fields = sacct.choose_fields(_answer(sacct.build_helpformat_argv()))
    window = sacct.build_window_options(now - 86400, now + 60)
    ids = [JobId(int(job_id)) for job_id in jobs.values()]
    (_folder() / "jobs.json").write_text(
        json.dumps({"taken_at": now, "jobs": jobs}, indent=1) + "\n"
    )
    _keep("squeue.txt", squeue.build_argv(), squeue.build_environment(_SEPARATOR))
    _keep("sinfo.txt", sinfo.build_argv())
    for name, which in {"window": window, "jobs": sacct.build_id_options(ids)}.items():
        _keep(f"sacct-{name}.txt", sacct.build_argv(fields.facts, which))
        _keep(f"sacct-{name}-texts.txt", sacct.build_argv(fields.texts, which, _SEPARATOR))
    _keep("sacct-helpformat.txt", sacct.build_helpformat_argv())
    _keep("scontrol-show-config.txt", scontrol.build_show_config_argv())


def _folder() -> Path:
    return release.data_folder("queries")


def _keep(name: str, argv: Sequence[str], more: Mapping[str, str] | None = None) -> None:
    (_folder() / name).write_text(_answer(argv, more))


def _answer(argv: Sequence[str], more: Mapping[str, str] | None = None) -> str:
    process = clients.run(argv, user="alice", env={**PLAIN_ANSWERS, **(more or {})})
    if process.returncode != 0:
        raise TestbedError(f"{argv}: {process.stderr.strip()}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
