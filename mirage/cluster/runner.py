"""Runs Slurm's commands: argument vectors, a time-out each, and a count of what they cost."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.errors import ClusterUnavailable

_FILTERS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")
"""Prefixes of variables with which a user narrows what the commands show; Mirage wants all."""

PLAIN_ANSWERS = {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
"""The environment in which instants are epoch seconds and messages are in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command left behind. A negative code is the signal that ended it."""

    stdout: str
    stderr: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a command has cost since the start: for /metrics."""

    calls: int = 0
    failures: int = 0
    """Could not be run, or did not end in time."""
    seconds: float = 0.0


class Runner:
    def __init__(self, *, timeout_s: float = 15.0) -> None:
        self._timeout_s = timeout_s
        self._usage: dict[str, Usage] = {}
        self._usage_lock = threading.Lock()

    def run(self, argv: Sequence[str]) -> Answer:
        """The answer, whatever its exit code; ClusterUnavailable when there is none."""
        began = time.monotonic()
        failed = True
        try:
            answer = _run(argv, self._timeout_s)
            failed = False
        finally:
            self._count(argv[0], failed=failed, seconds=time.monotonic() - began)
        return answer

    def usage(self) -> Mapping[str, Usage]:
        """By command."""
        with self._usage_lock:
            return dict(self._usage)

    def _count(self, command: str, *, failed: bool, seconds: float) -> None:
        with self._usage_lock:
            usage = self._usage.get(command, Usage())
            self._usage[command] = replace(
                usage,
                calls=usage.calls + 1,
                failures=usage.failures + failed,
                seconds=usage.seconds + seconds,
            )


def _run(argv: Sequence[str], timeout_s: float) -> Answer:
    try:
        # A session of its own, so that a command that hangs is ended with its children.
        process = subprocess.Popen(  # noqa: S603 - its purpose; argument vectors only
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ClusterUnavailable(
            f"{argv[0]} is not on PATH: install Slurm's client commands on this host, "
            f"or set PATH for the service to where they are"
        ) from error
    except OSError as error:
        raise ClusterUnavailable(f"{argv[0]} cannot be run: {error}") from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise ClusterUnavailable(
                f"{argv[0]} did not answer within {timeout_s:g} s and was ended"
            ) from error
        except BaseException:
            _end(process)
            raise
    return Answer(
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
        code=process.returncode,
    )


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FILTERS)}
    return kept | PLAIN_ANSWERS


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
