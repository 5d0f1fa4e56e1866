"""Runs Slurm's commands without a shell, with a time-out, and counts their cost."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.call_stats import CallStats, CallTotals

_FILTERS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")
"""Prefixes of variables that narrow what the commands show. Mirage removes them to see
everything."""

PLAIN_ANSWERS = {"LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "%s"}
"""The environment in which instants are epoch seconds and messages are in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The output and exit code of a command. A negative code is the signal that ended it."""

    stdout: str
    stderr: str
    code: int


class CommandRunner:
    def __init__(self, *, timeout_s: float = 15.0) -> None:
        self._timeout_s = timeout_s
        self.meter = CallStats()

    def run(self, argv: Sequence[str], variables: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command and return its result, whatever the exit code.

        `variables` are added to the command's environment, which no other user can read. Raises
        ClusterUnavailable if the command cannot be run or does not end in time.
        """
        with self.meter.count_call(argv[0]):
            return _run_command(argv, _build_environment(variables or {}), self._timeout_s)

    def get_usage(self) -> Mapping[str, CallTotals]:
        """Return the calls' totals by command."""
        return self.meter.get_usage()


def _run_command(
    argv: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> CommandResult:
    try:
        # A session of its own, so that a command that hangs is ended with its children.
        process = subprocess.Popen(  # noqa: S603 - its purpose; argument vectors only
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        # A folder of PATH that this account may not read makes an absent command look denied.
        if shutil.which(argv[0], mode=os.F_OK, path=environment.get("PATH")) is None:
            raise ClusterUnavailable(
                f"{argv[0]} is not on PATH: install Slurm's client commands on this host, "
                f"or set PATH for the service to where they are"
            ) from error
        raise ClusterUnavailable(f"{argv[0]} cannot be run: {error}") from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            _kill_process(process)
            raise ClusterUnavailable(
                f"{argv[0]} did not answer within {timeout_s:g} s and was ended"
            ) from error
        except BaseException:
            _kill_process(process)
            raise
    return CommandResult(
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
        code=process.returncode,
    )


def _build_environment(variables: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FILTERS)}
    return {**inherited, **PLAIN_ANSWERS, **variables}


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
