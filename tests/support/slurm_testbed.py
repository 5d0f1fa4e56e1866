"""The real Slurm of deploy/testbed, as tests use it."""

from __future__ import annotations

import atexit
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal

from tests.support.paths import CHECKOUT
from tests.support.patient import PATIENCE_S

_COMMAND = CHECKOUT / "deploy" / "testbed" / "testbed.py"
_SERVICE_USER = "mirage"
_UP_TIMEOUT_S = 240.0
_LEAST_WAIT_S = PATIENCE_S  # a busy host is slow in real time, however fast the clock runs
_POLL_S = 0.1
_SETPRIV = "/usr/bin/setpriv"
# A command that got no credential has asked slurmctld for nothing.
_NO_CREDENTIAL = "Munge encode failed"
# Slurm says that it has done nothing yet, and that the same request will do later.
_PASSING = re.compile(r"temporarily|try again|rate limit", re.IGNORECASE)
_STUCK_STEP = "Kill task failed"
OF_ONE_JOB = {"SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_JOB_SLUID"}
"""Variables that a job has from some release on, and no two jobs alike."""
# Values may hold blanks, keys never do: a key begins a line or follows a blank.
_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z/:]*)=")


class TestbedFailure(Exception):
    """The testbed, or a command in it, did not do what was asked; the message holds its output."""

    __test__ = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedSettings:
    __test__ = False

    speed: int = 1
    priority: Literal["age", "fairshare"] = "age"
    accrue_always: bool = False
    store_flags: bool = True
    nodes: int = 8
    auth: Literal["munge", "slurm"] = "munge"
    extra: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"x{self.speed}", self.priority]
        words += ["accrue-always"] * self.accrue_always
        words += ["no-store-flags"] * (not self.store_flags)
        words += ["sack"] * (self.auth == "slurm")
        return "-".join(words)

    def options(self) -> list[str]:
        options = [f"--speed={self.speed}", f"--priority={self.priority}", f"--nodes={self.nodes}"]
        options += [f"--auth={self.auth}"] * (self.auth != "munge")
        options += ["--accrue-always"] * self.accrue_always
        options += ["--no-store-flags"] * (not self.store_flags)
        return options + [f"--extra={line}" for line in self.extra]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    speed: float
    real_s: float
    shown_s: float

    def now(self) -> float:
        return self.shown_s + (time.time() - self.real_s) * self.speed


class Testbed:
    __test__ = False

    def __init__(self) -> None:
        self._clock = _Clock(speed=1, real_s=0, shown_s=0)
        self._environments: dict[str, dict[str, str]] = {}

    def up(self, settings: TestbedSettings | None = None, *, fresh: bool = False) -> None:
        """Bring up the cluster; a switch of settings, or `fresh`, forgets all jobs."""
        options = (settings or TestbedSettings()).options() + ["--fresh"] * fresh
        self._testbed("up", *options, timeout_s=_UP_TIMEOUT_S)
        self._environments.clear()
        clock = json.loads(self._testbed("status", "--json"))["clock"]
        self._clock = _Clock(speed=clock["speed"], real_s=clock["real_s"], shown_s=clock["shown_s"])

    def down(self, *, purge: bool = False) -> None:
        self._testbed("down", *["--purge"] * purge, timeout_s=_UP_TIMEOUT_S)

    def is_up(self) -> bool:
        process = subprocess.run(
            [sys.executable, str(_COMMAND), "status"], capture_output=True, check=False
        )
        return process.returncode == 0

    def daemons(self) -> dict[str, int]:
        """Return the pids of the daemons that run, by name; each leads a session of its own."""
        pid_by_name: dict[str, int] = json.loads(self._testbed("status", "--json"))["daemons"]
        return pid_by_name

    @property
    def speed(self) -> float:
        return self._clock.speed

    def now(self) -> float:
        """Return the cluster's time, in seconds since the epoch."""
        return self._clock.now()

    def env(self, user: str = _SERVICE_USER) -> dict[str, str]:
        """Return the environment of a login of `user` in the cluster's time."""
        if user not in self._environments:
            environment = self._testbed("env", "--json", f"--user={user}")
            self._environments[user] = json.loads(environment)
        return dict(self._environments[user])

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        check: bool = True,
        input: str | None = None,  # noqa: A002 as subprocess.run has it
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the cluster's time as `user`, from their home unless told otherwise.

        A command that failed for want of a credential from munged, or with what Slurm itself calls
        passing, runs again, for a while.
        """
        deadline = time.monotonic() + _LEAST_WAIT_S
        process = self._run(argv, user, input, env, cwd)
        while process.returncode and _is_passing(process.stderr) and time.monotonic() < deadline:
            time.sleep(1)
            process = self._run(argv, user, input, env, cwd)
        if check and process.returncode != 0:
            raise TestbedFailure(
                f"{user}: {argv}: {process.returncode}\n{process.stdout}{process.stderr}"
            )
        return process

    def _run(
        self,
        argv: Sequence[str],
        user: str,
        typed: str | None,
        env: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> subprocess.CompletedProcess[str]:
        with self.popen(
            argv,
            user=user,
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE,
        ) as process:
            stdout, stderr = process.communicate(typed)
        return subprocess.CompletedProcess(list(argv), process.returncode, stdout, stderr)

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = _SERVICE_USER,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        output: IO[str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command in the cluster's time; without `output` its output comes in pipes.

        A service that outlives a pipe's 64 KiB needs a file.
        """
        entry = pwd.getpwnam(user)
        environment = self.env(user) | dict(env or {})
        return subprocess.Popen(
            [*_list_words_to_become(user, environment), *argv],
            stdin=stdin,
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            text=True,
            cwd=cwd or entry.pw_dir,
            env=environment,
        )

    def sbatch(
        self, *words: str, user: str = "alice", run: str = "sleep 3600", cwd: Path | None = None
    ) -> int:
        """Submit `run` with the real sbatch and return the job id."""
        argv = ["sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap", run]
        return int(self.run(argv, user=user, cwd=cwd).stdout.partition(";")[0])

    def job(self, job_id: int) -> dict[str, str]:
        """Return what scontrol shows of a job; LookupError when slurmctld has forgotten it."""
        process = self.run(["scontrol", "-o", "show", "job", str(job_id)], check=False)
        if "Invalid job id" in process.stderr:
            raise LookupError(f"job {job_id}")
        if process.returncode != 0:
            raise TestbedFailure(process.stderr)
        parts = _KEY.split(process.stdout.splitlines()[0])[1:]
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def state(self, job_id: int) -> str:
        return self.job(job_id)["JobState"]

    def config(self) -> dict[str, str]:
        """Return `scontrol show config`."""
        lines = self.run(["scontrol", "show", "config"]).stdout.splitlines()
        pairs = [line.split("=", 1) for line in lines if " = " in line]
        return {key.strip(): value.strip() for key, value in pairs}

    def cancel_all(self) -> None:
        """Cancel every job until the nodes are free.

        Again at each look: a link that just ends may submit its cancelled successor once more.
        Where a step outlived SIGKILL for UnkillableStepTimeout, slurmd drained the node, and the
        next test would wait for it in vain.
        """
        self.wait_until(self._cancel_what_is_left, 300, "an empty queue")
        drained = self.run(["sinfo", "-h", "-N", "-o", "%N %E"]).stdout.splitlines()
        for node in {line.split()[0] for line in drained if _STUCK_STEP in line}:
            self.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])

    def _cancel_what_is_left(self) -> bool:
        for state in ("PENDING", "SUSPENDED", "RUNNING"):
            self.run(["scancel", "--quiet", f"--state={state}"])
        return not self.run(["squeue", "-h", "-o", "%i"]).stdout.strip()

    def stop_ctld(self, *, kill: bool = False) -> None:
        self._testbed("stop-ctld", *["--kill"] * kill)

    def start_ctld(self) -> None:
        self._testbed("start-ctld")

    def stop_dbd(self) -> None:
        self._testbed("stop-dbd")

    def start_dbd(self) -> None:
        self._testbed("start-dbd")

    def wait_until(
        self, predicate: Callable[[], bool], timeout_cluster_s: float, what: str = ""
    ) -> None:
        """Poll `predicate` until it holds, for at most that much of the cluster's time."""
        timeout_s = max(timeout_cluster_s / self.speed, _LEAST_WAIT_S)
        deadline = time.monotonic() + timeout_s
        while not predicate():
            if time.monotonic() > deadline:
                words = "squeue -t all; sinfo -N -o '%N %T %E'"
                listing = self.run(["sh", "-c", words], check=False).stdout
                raise TestbedFailure(
                    f"not within {timeout_s:.0f} s: {what or predicate}\n{listing}"
                )
            time.sleep(_POLL_S)

    def _testbed(self, *words: str, timeout_s: float = 90.0) -> str:
        process = subprocess.run(
            [sys.executable, str(_COMMAND), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if process.returncode != 0:
            raise TestbedFailure(f"testbed.py {' '.join(words)}:\n{process.stdout}{process.stderr}")
        return process.stdout


def _is_passing(error_output: str) -> bool:
    return _NO_CREDENTIAL in error_output or _PASSING.search(error_output) is not None


def has_auth_slurm() -> bool:
    """Return whether the Slurm installed here can do without MUNGE (`auth/slurm`)."""
    return any(Path("/usr/lib").glob("*/slurm-wlm/auth_slurm.so"))


def _list_words_to_become(user: str, environment: dict[str, str]) -> list[str]:
    """List the words before a command that `user` is to run. Takes LD_PRELOAD out of `environment`:
    the command alone keeps the cluster's time.

    `Popen(user=...)` forks this process, whose hundreds of MB take 50 ms of computing to copy;
    without it Python calls vfork, which takes one.
    """
    entry = pwd.getpwnam(user)
    groups = ",".join(map(str, os.getgrouplist(user, entry.pw_gid)))
    words = [_SETPRIV, f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", f"--groups={groups}"]
    preloaded = environment.pop("LD_PRELOAD", None)
    return words if preloaded is None else [*words, "env", f"LD_PRELOAD={preloaded}"]


@cache
def python_for_users() -> tuple[str, dict[str, str]]:
    """Return a Python that users can run with Mirage's modules, and the environment it needs.

    The one that runs the tests may live in root's home, where nobody else may look.
    """
    packages = [path for path in sys.path if path.endswith("-packages")]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = {"PYTHONPATH": ":".join([str(CHECKOUT), *packages]), **_kernels_for_users()}
    nobody = pwd.getpwnam("nobody")
    for python in (sys.executable, f"/usr/bin/python{version}"):
        try:
            process = subprocess.run(
                [python, "-c", "import mirage, sqlalchemy"],
                capture_output=True,
                check=False,
                cwd="/",
                env=environment,
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
            )
        except OSError:
            continue
        if process.returncode == 0:
            return python, environment
    raise TestbedFailure(f"no Python {version} that a user other than root may run with Mirage")


@cache
def _kernels_for_users() -> dict[str, str]:
    """The environment in which users find compiled kernels, and keep what they compile.

    They may not write beside the sources, and would compile anew in each process: minutes of the
    machine's time. NO_FAKE_STAT: to numba sources of another time are other sources.
    """
    folder = Path(tempfile.mkdtemp(prefix="mirage-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    from mirage.simulator.arrays.jit import CACHE  # noqa: PLC0415 - numba reads as it is imported whether to compile

    ours = Path(CACHE)
    if ours.is_dir():
        shutil.copytree(ours, folder / ours.name)
    for place in (folder, *folder.glob("**/")):
        place.chmod(0o777)
    return {"NUMBA_CACHE_DIR": str(folder), "NO_FAKE_STAT": "1"}
