"""Daemons started detached and stopped by what was recorded of them, never by name."""

from __future__ import annotations

import logging
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from settings import LOG, RUN, TestbedError

_POLL_S = 0.02
PATIENCE_S = 600.0
"""Against what hangs: on a busy host a daemon needs minutes to begin."""
_log = logging.getLogger("testbed")


def start_time(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot; None when it is gone or a zombie.

    Together with the pid this names a process for good: pids are used again, pairs are not.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Field 2, the command, may hold blanks and brackets; state is field 3, start time field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _record(name: str) -> Path:
    return RUN / f"{name}.pid"


def pid_of(name: str) -> int | None:
    """Return the pid of the daemon recorded under `name` while it lives."""
    try:
        pid, started = (int(word) for word in _record(name).read_text().split())
    except (FileNotFoundError, ValueError):
        return None
    return pid if start_time(pid) == started else None


def recorded() -> list[str]:
    return sorted(path.stem for path in RUN.glob("*.pid"))


def start(
    name: str, argv: Sequence[str], *, user: str = "root", env: Mapping[str, str] | None = None
) -> None:
    """Start `argv` in a session of its own unless `name` runs already."""
    if pid_of(name) is not None:
        return
    entry = pwd.getpwnam(user)
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": entry.pw_dir}
    with (LOG / f"{name}.out").open("ab") as output:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=clean | dict(env or {}),
            start_new_session=True,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=os.getgrouplist(user, entry.pw_gid),
        )
    _log.info("started %s as %d", name, child.pid)
    _record(name).write_text(f"{child.pid} {start_time(child.pid) or 0}\n")


def stop(names: Iterable[str], *, grace_s: float = 30.0, kill: bool = False) -> None:
    """End the recorded daemons: TERM (or KILL at once), then KILL what outlives the grace."""
    waiting = {name: pid for name in names if (pid := pid_of(name)) is not None}
    for pid in waiting.values():
        signal_quietly(pid, signal.SIGKILL if kill else signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    for name, pid in waiting.items():
        if not _gone(name, deadline):
            _log.warning("%s outlives its grace", name)
            signal_quietly(pid, signal.SIGKILL)
            if not _gone(name, time.monotonic() + 5):
                raise TestbedError(f"{name} (pid {pid}) does not end")
        _log.info("stopped %s", name)
        _record(name).unlink(missing_ok=True)


def _gone(name: str, deadline: float) -> bool:
    while pid_of(name) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def signal_quietly(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_for(
    what: str, ready: Callable[[], bool], *, timeout_s: float = PATIENCE_S, daemon: str = ""
) -> None:
    """Poll until `ready`; give up early, quoting its log, when `daemon` has died."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        died = bool(daemon) and pid_of(daemon) is None
        if died or time.monotonic() > deadline:
            raise TestbedError(f"{what}: {'died' if died else 'not in time'}\n{_log_tail(daemon)}")
        time.sleep(_POLL_S)
    _log.info("%s: ready", what)


def _log_tail(daemon: str) -> str:
    lines: list[str] = []
    for path in (LOG / f"{daemon}.out", LOG / f"{daemon}.log"):
        with suppress(OSError):
            lines += path.read_text(errors="replace").splitlines()[-15:]
    return "\n".join(lines)


def kill_job_steps() -> None:
    """Kill the job steps of our nodes and all they started: a step outlives its slurmd.

    They hold the log of our slurmd open, which nobody else's steps do.
    """
    for pid in _step_daemons():
        for member in [*_descendants(pid), pid]:
            signal_quietly(member, signal.SIGKILL)


def _step_daemons() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if not (process / "exe").readlink().name.startswith("slurmstepd"):
                continue
            files = [str(link.readlink()) for link in (process / "fd").iterdir()]
            if any(name.startswith(f"{LOG}/slurmd-") for name in files):
                yield int(process.name)


def _descendants(pid: int) -> list[int]:
    pids: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                pids += [*_descendants(child), child]
    return pids


def stop_tree(name: str) -> None:
    """End a recorded process by ending its children first, so that it may tidy up after them."""
    pid = pid_of(name)
    if pid is None:
        return
    for child in _descendants(pid):
        signal_quietly(child, signal.SIGTERM)
    _gone(name, time.monotonic() + 1)
    stop([name])
