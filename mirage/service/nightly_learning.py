"""Runs `mirage learn` once a night, in a process beside the service (`learn.schedule = "service"`).

It is for installations without systemd's timer. The service imports nothing that learning needs.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from mirage.domain.sanitize import escape_unprintable
from mirage.domain.time_units import HOUR_S

_FIRST_HOUR = 1
"""Of the night, local time: as OnCalendar= of mirage-learn.timer."""
_SPREAD_S = 2 * HOUR_S
"""Services of several hosts begin at different instants: as RandomizedDelaySec= of the timer."""
_GRACE_S = 10
"""How long the process may take to end with the service, in seconds."""
READER = "output of learning"
"""The name of the thread that logs the process's output, and its end."""
_MOST_LINES = 1000
_LINE_BYTES = 4096

_log = structlog.get_logger(__name__)


def build_learn_command(options: Sequence[str]) -> list[str]:
    """Return the argument vector of `mirage learn` with this program's Python, on one core."""
    # As this process was started: nothing is imported from the working directory.
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, "-m", "mirage", "learn", "--jobs", "1", *options]


class NightlyLearning:
    """Starts the command once a night, never two at once, at the lowest priority.

    Its output goes to the log. However it ends, the worker goes on. Only the worker's thread calls
    `run_tick`.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._due_at: int | None = None

    def run_tick(self, now: int) -> None:
        """Start the command if its instant of this night has come; `now`: the cluster's clock."""
        if self._due_at is None:
            self._due_at = compute_next_start(now)
        if now < self._due_at:
            return
        self._due_at = compute_next_start(now)
        if self._process is not None and self._process.poll() is None:
            _log.warning("learning is not started: that of an earlier night still runs")
            return
        try:
            self._process = _start_process(self._command)
        except OSError as error:
            _log.error("learning cannot be started", error=str(error))

    def end(self) -> None:
        """End the process; `mirage learn` goes on another night where it stopped."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        _signal_group(process, signal.SIGTERM)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            _signal_group(process, signal.SIGKILL)
            process.wait()


def compute_next_start(now: int) -> int:
    """Return the first start after `now`: one a day, early in the night of this host's zone."""
    today = time.localtime(now)
    spread_s = zlib.crc32(socket.gethostname().encode()) % _SPREAD_S
    for day in (today.tm_mday, today.tm_mday + 1):
        night = (today.tm_year, today.tm_mon, day, _FIRST_HOUR, 0, 0, 0, 0, -1)
        start = int(time.mktime(night)) + spread_s
        if start > now:
            break
    return start


def _start_process(command: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(  # noqa: S603 - a program of ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # so that the processes that it starts end with it
    )
    with suppress(OSError):  # it has ended, or the service's unit allows no change of priority
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
    with suppress(OSError):  # if memory runs out, this process ends before the service
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    _log.info("learning has begun", pid=process.pid)
    try:
        threading.Thread(target=_log_output, args=(process,), name=READER, daemon=True).start()
    except RuntimeError as error:  # no thread is left: nobody would read what it prints
        _signal_group(process, signal.SIGKILL)
        process.wait()
        raise OSError(str(error)) from error
    return process


def _log_output(process: subprocess.Popen[bytes]) -> None:
    """Log the first lines of the process, and how it ends."""
    assert process.stdout is not None  # noqa: S101 - as it was started
    lines = 0
    with process.stdout as output:
        # The rest is read as well: a process whose output nobody reads would stop.
        while line := output.readline(_LINE_BYTES):
            lines += 1
            if lines <= _MOST_LINES:
                text = line.decode(errors="replace").rstrip()
                _log.info("learning", line=escape_unprintable(text))
    code = process.wait()
    left_out = {"left_out": lines - _MOST_LINES} if lines > _MOST_LINES else {}
    say = _log.warning if code else _log.info
    say("learning has ended", code=code, **left_out)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
