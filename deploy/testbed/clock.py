"""The cluster's clock: real, or many times faster through libfaketime.

The `faketime` wrapper keeps the moment its clock began in shared memory, so that every process with
the same environment reads the same time. munged and MariaDB are left out of it: they speak of no
times that Slurm compares with its own.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import daemons
from settings import RUN

DAEMON = "clock"
ENV_FILE = RUN / "clock.env"
_ORIGIN_FILE = RUN / "clock.json"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 where glibc puts what the wrapper made
# The wrapper's child writes what it was given, opens the shared memory to other users, and stays.
_HOLD = """\
for part in $FAKETIME_SHARED; do chmod 666 /dev/shm$part /dev/shm/sem.${part#/} 2>/dev/null; done
env | grep -E '^(LD_PRELOAD|FAKETIME|FAKETIME_SHARED)=' >"$1.part" && mv "$1.part" "$1"
exec sleep infinity
"""


def start(speed: int) -> None:
    if speed == 1 or daemons.pid_of(DAEMON) is not None:
        return
    forget()
    hold = ["faketime", "-f", f"+0 x{speed}", "sh", "-c", _HOLD, "sh", str(ENV_FILE)]
    daemons.start(DAEMON, hold)
    daemons.wait_for("the clock", ENV_FILE.exists, daemon=DAEMON)
    started_at = time.time()
    process = subprocess.run(
        ["date", "+%s.%N"], capture_output=True, text=True, check=True, env=environment()
    )
    real_s = (started_at + time.time()) / 2
    fields = {"speed": speed, "real_s": real_s, "shown_s": float(process.stdout)}
    _ORIGIN_FILE.write_text(json.dumps(fields))


def environment() -> dict[str, str]:
    """Return what a process needs in its environment to live in the cluster's time."""
    try:
        lines = ENV_FILE.read_text().splitlines()
    except FileNotFoundError:
        return {}
    return dict(line.split("=", 1) for line in lines)


def origin() -> dict[str, float]:
    """Return what the clock showed (`shown_s`) at a real time (`real_s`), and its speed."""
    try:
        fields = json.loads(_ORIGIN_FILE.read_text())
    except FileNotFoundError:
        return {"speed": 1.0, "real_s": 0.0, "shown_s": 0.0}
    return {name: float(value) for name, value in fields.items()}


def now() -> float:
    """Return the cluster's time in seconds since the epoch."""
    began = origin()
    return began["shown_s"] + (time.time() - began["real_s"]) * began["speed"]


def stop() -> None:
    pid = daemons.pid_of(DAEMON)
    shared = environment().get("FAKETIME_SHARED", "").split()
    daemons.stop_tree(DAEMON)
    if pid is not None:
        for name in shared:
            for path in (name.removeprefix("/"), f"sem.{name.removeprefix('/')}"):
                (_SHARED_MEMORY / path).unlink(missing_ok=True)
    forget()


def forget() -> None:
    ENV_FILE.unlink(missing_ok=True)
    _ORIGIN_FILE.unlink(missing_ok=True)
