"""The `mirage` command as a process of its own, and `mirage serve` beside fake Slurm commands."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from mirage.slurm.text import delimited_rows
from tests.support import patient
from tests.support.cluster.commands import FakeCommands
from tests.support.log_lines import read_whole_lines
from tests.support.paths import CHECKOUT
from tests.support.patient import wait_until
from tests.support.slurm.captured import SDIAG, answer

MIRAGE = (sys.executable, "-m", "mirage")
_LONGEST_S = 280.0
_WITHOUT_ROOTS_PASS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """This process's, without what the developer set for Mirage."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MIRAGE_")}
    return plain | {"COLUMNS": "200", "PYTHONPATH": str(CHECKOUT)} | more


def run(
    *arguments: str | Path,
    cwd: Path | None = None,
    by_modes: bool = False,
    environ: Mapping[str, str] | None = None,
    **more: str,
) -> Answer:
    """Run a command; `environ` and the keywords are added to its environment.

    `by_modes`: files are as closed as their mode bits say, even to root.
    """
    more = {**(environ or {}), **more}
    words = [str(word) for word in arguments]
    if by_modes or any(name.startswith("PYTHON") for name in more):
        return _run_cold(words, cwd, modest=by_modes and os.geteuid() == 0, env=environment(**more))
    return _warm().run(words, cwd or Path.cwd(), environment(**more))


def _run_cold(
    words: Sequence[str], cwd: Path | None, env: dict[str, str], *, modest: bool
) -> Answer:
    process = subprocess.run(
        [*(_WITHOUT_ROOTS_PASS if modest else ()), *MIRAGE, *words],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_S,
    )
    return Answer(process.returncode, process.stdout, process.stderr)


class _Warm:
    """Runs commands in forks of `tests.support.warm`, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm"],
            env=environment(),
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, words: Sequence[str], cwd: Path, env: dict[str, str]) -> Answer:
        with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as err:
            call = {"words": words, "cwd": str(cwd), "env": env, "out": out.name, "err": err.name}
            try:
                code = self._answered(json.dumps(call))
            except BaseException:
                # What still runs is the test's no more.
                self.end()
                raise
            return Answer(code, out.read(), err.read())

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _warm.cache_clear()

    def _answered(self, line: str) -> int:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(f"{line}\n")
        requests.flush()
        ready, _, _ = select.select([answers], [], [], _LONGEST_S)
        assert ready, f"no end after {_LONGEST_S} s: {line}"
        return int(answers.readline())


@cache
def _warm() -> _Warm:
    return _Warm()


SITE = re.sub(r"(?m)^(ClusterName *= ).*$", r"\1lab", answer("scontrol-show-config.txt"))
"""`scontrol show config` of the cluster that `configured` names."""


class QuietSlurm(FakeCommands):
    """A cluster of eight nodes without a job."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir()
        self.path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        header = (
            answer("sacct-window.txt").replace(delimited_rows.SEPARATOR, "|").partition("\n")[0]
            + "\n"
        )
        self.answers("squeue")
        self.answers("sinfo", answer("sinfo.txt").replace(delimited_rows.SEPARATOR, "|"))
        self.answers("sacct", header, helpformat=answer("sacct-helpformat.txt"))
        self.answers("scontrol", SITE)
        self.answers("scancel")
        self.answers("sdiag", SDIAG)
        self.runs("sacctmgr", "#!/bin/sh\n")
        self.answers("sbatch", "7\n")


class Serving:
    """A `mirage serve` that runs; its log is read from a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def log(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in read_whole_lines(self._log)]

    def log_bytes(self) -> int:
        return self._log.stat().st_size

    def url(self) -> str:
        return str(next(line["url"] for line in self.log() if line["event"] == "serving"))

    def wait_until_serving(self) -> str:
        """Its address, once it answers there."""
        wait_until(lambda: self._answers("/healthz"), "the service does not answer")
        return self.url()

    def wait_until_ready(self) -> None:
        wait_until(lambda: self._answers("/readyz"), "the service is not ready")

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(patient.PATIENCE_S)

    def _answers(self, path: str) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        if not any(line["event"] == "serving" for line in self.log()):
            return False
        return patient.get(self.url() + path).is_success


@contextmanager
def serving(
    config: Path, slurm: QuietSlurm, *words: str, descriptors: int | None = None, **more: str
) -> Iterator[Serving]:
    """`mirage serve`, with `words` after it and so many descriptors at most.

    Whatever happens, it is gone afterwards.
    """
    limited = () if descriptors is None else ("prlimit", f"--nofile={descriptors}:{descriptors}")
    log = config.parent / f"serve-{time.monotonic_ns()}.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*limited, *MIRAGE, "serve", *words, "--config", str(config)],
            env=environment(PATH=slurm.path, **more),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield Serving(process, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_for_call(slurm: QuietSlurm, command: str) -> None:
    """Until `command` has been called: it may still be answering."""
    wait_until(lambda: bool(slurm.calls(command)), f"{command} is not called")


def configured(folder: Path, *, port: int = 0, at: Path | None = None) -> Path:
    """A configuration file, `at` or in `folder`, whose state is in `folder`."""
    path = at or folder / "mirage.toml"
    path.write_text(
        f'log_format = "json"\n'
        f'[cluster]\nname = "lab"\n'
        f'[service]\nport = {port}\nstate_dir = "{folder}/state"\n'
    )
    return path
