"""The scene of a hand-over test: users who submit chains, a filler load, and the service."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from mirage.domain.handover import Handover
from tests.support.log_lines import read_whole_lines
from tests.support.paths import CHECKOUT
from tests.support.patient import PATIENCE_S
from tests.support.slurm_testbed import Testbed, python_for_users

PORT = 6497
_URL = f"http://127.0.0.1:{PORT}"
_FIRST = re.compile(r"\bmirage:\w+:1(?!\S)")
"""The mark of a chain's first link."""
_NO_SERVICE = 5
"""Exit code of the command line (decision 0008)."""
_USER_SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:4 --cpus-per-task=2 --mem=100M
echo "start $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
if [ "$2" = until-told ]; then
    until [ -e "$1.$MIRAGE_LINK" ]; do sleep 5; done
else
    trap : TERM # where a busy host took longer to begin than the time limit leaves, it ends here
    sleep "$2"
fi
echo "end $MIRAGE_CHAIN_ID $MIRAGE_LINK $SLURM_JOB_ID $(date +%s)" >> "$1"
"""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """One run of alice's script, as the script itself wrote it: nothing here is from Mirage."""

    chain: str
    link: int
    job_id: int
    start: int
    end: int | None


@dataclass
class Scene:
    testbed: Testbed
    root: Path
    service: subprocess.Popen[str] | None = None
    _load: Load | None = None
    chain_ids: dict[str, str] = field(default_factory=dict)

    @classmethod
    def set_up(cls, testbed: Testbed) -> Scene:
        root = Path(tempfile.mkdtemp(prefix="mirage-scene-"))
        root.chmod(0o755)
        shutil.copytree(CHECKOUT / "slurm_plugin", root / "slurm_plugin")
        _give_time_to_register(root / "slurm_plugin/mirage_slurm/client/request.py", testbed.speed)
        for user in ("alice", "mirage"):
            home = root / user
            home.mkdir()
            entry = pwd.getpwnam(user)
            os.chown(home, entry.pw_uid, entry.pw_gid)
        script = root / "train.sh"
        script.write_text(_USER_SCRIPT)
        return cls(testbed, root)

    def strike(self) -> None:
        """End all that the test started."""
        if self._load is not None:
            self._load.stop()
        self.stop_service(signal.SIGKILL)
        self.testbed.cancel_all()

    # Users

    def submit_chain(  # noqa: PLR0913 - what a user may type
        self,
        name: str,
        *,
        links: int,
        run_s: int | None,
        limit_min: int,
        policy: str | None = None,
        style: str | None = None,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        script: Path | None = None,
    ) -> int:
        """Submit a chain as alice with the wrapped sbatch; return the first link's job id.

        Without `run_s` a link's work lasts until `let_end`. Without `style` two links may run at
        once for four hours at most; with a style, its own bound on overlap holds.
        """
        words = [str(self.root / "slurm_plugin" / "sbatch"), "--parsable", "-p", "gpu"]
        words += [f"--mirage-chain={links}", f"--time={limit_min}", "-o", "/dev/null"]
        words += [f"--mirage-policy={policy}"] if policy else []
        # Tests read a link's start from its script's log, so the script must start with the link.
        default_style = ["--mirage-style=concurrent", "--mirage-max-overlap=4:00:00"]
        words += default_style if style is None else [f"--mirage-style={style}"]
        words += options
        words += [str(script or self.root / "train.sh"), str(self.log(name))]
        words += ["until-told" if run_s is None else str(run_s)]
        environment = {
            "MIRAGE_URL": _URL,
            "MIRAGE_STATE_DIR": str(self.root / "alice" / "state"),
            **(env or {}),
        }
        process = self.testbed.run(words, user="alice", env=environment, cwd=self.root / "alice")
        return int(process.stdout.partition(";")[0])

    def let_end(self, name: str, link: int) -> None:
        Path(f"{self.log(name)}.{link}").touch()

    def log(self, name: str) -> Path:
        return self.root / "alice" / f"{name}.log"

    def list_runs(self, name: str) -> list[ScriptRun]:
        """Return the links of that chain whose script started, in the order of their starts."""
        lines = read_whole_lines(self.log(name))
        ends = {int(w[3]): int(w[4]) for w in map(str.split, lines) if w[0] == "end"}
        return [
            ScriptRun(w[1], int(w[2]), int(w[3]), int(w[4]), ends.get(int(w[3])))
            for w in map(str.split, lines)
            if w[0] == "start"
        ]

    def is_finished(self, name: str, links: int) -> bool:
        runs = self.list_runs(name)
        return len(runs) == links and all(run.end is not None for run in runs)

    def handovers(self, name: str) -> list[Handover]:
        runs = self.list_runs(name)
        return [
            Handover(before.end, after.start)
            for before, after in itertools.pairwise(runs)
            if before.end is not None
        ]

    def standbys(self) -> list[tuple[int, str]]:
        """Return (job id, comment) of alice's pending jobs, without first links."""
        words = ["squeue", "-h", "-u", "alice", "-t", "PD", "-o", "%A %k"]
        lines = self.testbed.run(words).stdout.splitlines()
        rows = [(int(a), b) for a, _, b in (line.partition(" ") for line in lines)]
        return [row for row in rows if not _FIRST.search(row[1])]

    def fill(self, *, backlog: int, gpus: int, run_s: tuple[int, int]) -> None:
        """Have bob fill all nodes at once, and then keep `backlog` jobs waiting."""
        self._load = Load(self.testbed, backlog=backlog, gpus=gpus, run_s=run_s)
        self._load.start()

    def let_jobs_wait(self, wait_min: int, *, jobs: int) -> None:
        """Have `jobs` jobs of bob in partition gpu wait for `wait_min` minutes.

        Jobs of partition long hold all nodes for that time. Returns when bob has no job left.
        """
        sbatch = "sbatch -Q -o /dev/null --gres=gpu:4"
        blocker = f"{sbatch} -p long --exclusive -t {2 * wait_min} --wrap 'sleep {60 * wait_min}'"
        waiting_job = f"{sbatch} -p gpu -t 5 --wrap 'sleep 30'"
        self.testbed.run(["sh", "-ec", "\n".join([blocker] * 8)], user="bob")
        running_argv = ["squeue", "-h", "-u", "bob", "-t", "R", "-o", "%A"]
        self.testbed.wait_until(
            lambda: len(self.testbed.run(running_argv).stdout.split()) == 8,
            60 * wait_min,
            "full nodes",
        )
        self.testbed.run(["sh", "-ec", "\n".join([waiting_job] * jobs)], user="bob")
        remaining_argv = ["squeue", "-h", "-u", "bob", "-o", "%A"]
        self.testbed.wait_until(
            lambda: not self.testbed.run(remaining_argv).stdout, 7200, "bob's jobs' ends"
        )

    def count_submitted(self) -> int:
        """Return the number of filler jobs so far."""
        return 0 if self._load is None else self._load.submitted

    def chain(self, *words: str, user: str = "alice") -> subprocess.CompletedProcess[str]:
        """Run `mirage chain` as `user`, again while no service answers; any exit code is returned.

        The service waits for munged for 5 s of the cluster's time: too short on a busy host.
        """
        python, environment = python_for_users()
        # Without the cluster's fast clock: this command asks no Slurm, and its time-outs are then
        # long enough.
        environment = environment | {"LD_PRELOAD": "", "COLUMNS": "200", "MIRAGE_URL": _URL}
        argv = [python, "-m", "mirage", "chain", *words]
        answers: list[subprocess.CompletedProcess[str]] = []

        def is_answered() -> bool:
            answers.append(self.testbed.run(argv, user=user, env=environment, check=False))
            return answers[-1].returncode != _NO_SERVICE

        self.testbed.wait_until(is_answered, 600, "the service's answer")
        return answers[-1]

    # The service

    def mirage(self, *words: str) -> str:
        """Run a mirage command as the service's account; return its output."""
        python, environment = python_for_users()
        return self.testbed.run(
            [python, "-m", "mirage", *words],
            user="mirage",
            env=environment | {"MIRAGE_CONFIG": str(self._config)},
            cwd=self.root / "mirage",
        ).stdout

    def start_service(
        self,
        *,
        mode: str = "act",
        policy: str | None = None,
        extra_config: str = "",
        cluster: str = "",
        path: str | None = None,
        module: str = "mirage",
    ) -> None:
        """Start `mirage serve` as the account mirage, an Operator and not root, and wait for it.

        It runs in the cluster's time. `policy` is the default policy; None: the product's.
        `extra_config` is added to the configuration file, `cluster` to its table [cluster]. `path`
        is the PATH on which the service finds Slurm's commands. `module` is the program to run.
        """
        self._configure(policy, extra_config, cluster)
        self.mirage("db", "upgrade")
        self.mirage("mode", mode)
        self.launch_service(path, module)
        self.testbed.wait_until(self.is_ready, 1200, "mirage serve to be ready")

    def launch_service(self, path: str | None = None, module: str = "mirage") -> None:
        """Start a service that was started before once more; return before the service is ready."""
        python, environment = python_for_users()
        with (self.root / "mirage" / "serve.log").open("a") as log:
            self.service = self.testbed.popen(
                [python, "-m", module, "serve"],
                user="mirage",
                env=environment
                | {"MIRAGE_CONFIG": str(self._config)}
                | ({} if path is None else {"PATH": path}),
                cwd=self.root / "mirage",
                output=log,
            )

    def stop_service(self, sign: signal.Signals = signal.SIGTERM) -> None:
        if self.service is not None and self.service.poll() is None:
            self.service.send_signal(sign)
            self.service.wait(timeout=60)
        self.service = None

    def api(self, path: str) -> dict[str, Any]:
        try:
            url = f"http://127.0.0.1:{PORT}{path}"
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                parsed: dict[str, Any] = json.load(answer)
                return parsed
        except HTTPError as error:
            error.close()  # the error holds the answer, and an answer left open is a warning
            raise

    def show_chain(self, name: str) -> dict[str, Any]:
        """Wait until the service knows the chain; return the service's answer about it."""
        path = f"/api/v1/chains/{self.list_runs(name)[0].chain}"
        answers: list[dict[str, Any]] = []

        def is_known() -> bool:
            try:
                answers.append(self.api(path))
            except HTTPError as error:
                if error.code != HTTPStatus.NOT_FOUND:
                    raise
            return bool(answers)

        self.testbed.wait_until(is_known, 1200, f"the service to know chain {name}")
        return answers[-1]

    def service_log(self) -> str:
        return (self.root / "mirage" / "serve.log").read_text()

    def audit(self) -> list[tuple[str, str, dict[str, object]]]:
        """Return (event, chain, detail) of each row of the audit, oldest first."""
        import sqlite3  # noqa: PLC0415 - only this method reads the database itself

        with closing(sqlite3.connect(self.root / "mirage" / "mirage.db")) as db:
            rows = db.execute("SELECT event, chain_id, detail FROM audit ORDER BY id").fetchall()
        return [(event, chain, json.loads(detail)) for event, chain, detail in rows]

    def is_ready(self) -> bool:
        """Return whether the service answers and is ready; fail if the service has ended."""
        assert self.service is not None
        assert self.service.poll() is None, self.service_log()
        try:
            self.api("/readyz")
        except OSError:
            return False
        return True

    @property
    def _config(self) -> Path:
        return self.root / "mirage" / "mirage.toml"

    def _configure(self, policy: str | None, extra_config: str, cluster: str) -> None:
        # Commands may take 15 s of real time: the cluster's clock runs faster.
        text = (
            f'[cluster]\nname = "testbed"\ncommand_timeout_s = {15 * int(self.testbed.speed)}\n'
            f"{cluster}"
            f'[service]\nport = {PORT}\nstate_dir = "{self.root / "mirage"}"\n'
        )
        text += "" if policy is None else f'[provision]\npolicy = "{policy}"\n'
        text += "allow_pin = true\n" if policy and policy.startswith("pin") else ""
        self._config.write_text(text + extra_config)


def _give_time_to_register(module: Path, speed: float) -> None:
    """Let the wrapper wait for 30 s of real time, where it would wait for 2 s of the fast clock.

    On a busy host the service takes seconds to answer, and a chain that is not registered has other
    settings.
    """
    before, limit, after = module.read_text().partition("LIMIT_S = 2.0\n")
    assert limit
    module.write_text(f"{before}LIMIT_S = {30.0 * speed}\n{after}")


class Load(threading.Thread):
    """bob's filler jobs. The first batch does not wait, so it runs in a partition of its own: its
    waits of zero must not count among those of partition gpu."""

    def __init__(
        self, testbed: Testbed, *, backlog: int, gpus: int, run_s: tuple[int, int]
    ) -> None:
        super().__init__(name="filler", daemon=True)
        self._testbed, self._backlog, self._gpus = testbed, backlog, gpus
        self._shortest, self._longest = run_s
        self._stop_event = threading.Event()
        self.submitted = 0

    def run(self) -> None:
        slots = 64 // self._gpus
        self._submit([("long", slots)])
        while not self._stop_event.wait(0.5):
            self._submit([("gpu", self._backlog - self._waiting())])

    def stop(self) -> None:
        self._stop_event.set()
        self.join()

    def _waiting(self) -> int:
        words = ["squeue", "-h", "-u", "bob", "-t", "PD", "-p", "gpu", "-o", "%A"]
        return len(self._testbed.run(words, check=False).stdout.split())

    def _submit(self, batches: Sequence[tuple[str, int]]) -> None:
        """Run times step through their range, so releases are spread evenly and repeatably."""
        lines = []
        for partition, count in batches:
            for _ in range(max(0, count)):
                step = self.submitted * 7 % 16 / 15
                run_s = round(self._shortest + step * (self._longest - self._shortest))
                limit = self._longest // 60 + 2
                self.submitted += 1
                lines.append(
                    f"sbatch -Q -o /dev/null -p {partition} -t {limit} --gres=gpu:{self._gpus} "
                    f"--cpus-per-task=2 --mem=100M --wrap 'sleep {run_s}'"
                )
        if lines:
            self._testbed.run(["sh", "-c", "\n".join(lines)], user="bob", check=False)
