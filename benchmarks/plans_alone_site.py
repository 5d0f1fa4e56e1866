"""One real Slurm on which the four arms of `benchmarks.plans_alone` run side by side."""

import itertools
import os
import pwd
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirage.domain.handover import Handover
from tests.support.paths import PLUGIN
from tests.support.slurm_testbed import Testbed, TestbedSettings, python_for_users

NODES, LINK_GPUS, GPUS_PER_NODE = 16, 4, 8
SLOTS = NODES * GPUS_PER_NODE // LINK_GPUS
LIMIT_MIN = 120
FILLER_MIN = (30, 90)
BACKLOG = (10, 26)
"""bob's waiting jobs: the number wanders between these, so that waits differ from hour to hour."""
STEP_MIN = 30
HOUR_S = 3600
_SCRIPT = f"""#!/bin/bash
#SBATCH --gres=gpu:{LINK_GPUS} --cpus-per-task=2 --mem=100M
echo "$SLURM_JOB_ID" >> "$1"
exec sleep infinity
"""
_LIMITS = (
    ("mirage_client.py", "LIMIT_S = 2.0\n", "LIMIT_S = 10.0 * SPEED\n"),
    ("mirage_plan.py", "LIMIT_S = 120\n", "LIMIT_S = 120 * SPEED\n"),
    ("mirage_jobs.py", "ASK_S = 20\n", "ASK_S = 20 * SPEED\n"),
    ("mirage_waits.py", "ASK_S = 20\n", "ASK_S = 20 * SPEED\n"),
    (
        "carrier_files.sh",
        '        timeout "$@"\n',
        "        mirage_limit_s=$(($1 * SPEED))\n        shift\n"
        '        timeout "$mirage_limit_s" "$@"\n',
    ),
    ("carrier_files.sh", '"${mirage_look_s-}" 2', '"${mirage_look_s-}" 20'),
)
"""The limits that a busy machine keeps in seconds of its own: the cluster's clock runs faster.

The first is longer than a user's two seconds: a chain that cannot register itself on a busy machine
is another measurement. The last one is how often a link that waits looks around.
"""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run a chain; `user` submits it."""

    name: str
    user: str
    has_service: bool = False
    is_plain: bool = False


LIVE, AWAY = Arm("live", "alice", has_service=True), Arm("away", "carol", has_service=True)
NEVER, PLAIN = Arm("never", "bob"), Arm("plain", "bob", is_plain=True)
ARMS = (LIVE, AWAY, NEVER, PLAIN)


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that ran a link's script, by sacct: instants in epoch seconds."""

    job: int
    eligible: int
    start: int
    end: int


@dataclass
class Site:
    """The testbed, its users' homes, and the two users' own services."""

    testbed: Testbed
    root: Path
    services: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    load: "Load | None" = None
    unregistered: list[str] = field(default_factory=list)
    """Chains whose service did not answer as they were submitted; it starts their links at the end
    of the link before."""

    @classmethod
    def set_up(cls, speed: int) -> "Site":
        testbed = Testbed()
        testbed.up(TestbedSettings(speed=speed, nodes=NODES), fresh=True)
        testbed.cancel_all()
        root = Path(tempfile.mkdtemp(prefix="mirage-plans-"))
        root.chmod(0o755)
        shutil.copytree(PLUGIN, root / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
        give_patience(root / "plugin", speed)
        (root / "train.sh").write_text(_SCRIPT)
        for user in {arm.user for arm in ARMS}:
            entry = pwd.getpwnam(user)
            (root / user).mkdir(mode=0o700)
            os.chown(root / user, entry.pw_uid, entry.pw_gid)
        return cls(testbed, root)

    def strike(self) -> None:
        """End all that was started."""
        if self.load is not None:
            self.load.stop()
        for user in list(self.services):
            self.kill_service(user)
        self.testbed.cancel_all()
        self.testbed.down()
        shutil.rmtree(self.root, ignore_errors=True)

    def run(
        self, argv: Sequence[str], user: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        home = self.root / user
        own = {"HOME": str(home), **(env or {})}
        return self.testbed.run(argv, user=user, env=own, cwd=home)

    # Services

    def start_service(self, user: str) -> None:
        """`mirage serve --user` with the default settings, in mode act."""
        home = self.root / user
        limit_s = 15 * int(self.testbed.speed)
        config = home / "mirage.toml"
        config.write_text(f'[cluster]\nname = "testbed"\ncommand_timeout_s = {limit_s}\n')
        python, environment = python_for_users()
        own = environment | {"HOME": str(home), "MIRAGE_CONFIG": str(config)}
        with (home / "serve.log").open("w") as log:
            self.services[user] = self.testbed.popen(
                [python, "-m", "mirage", "serve", "--user"],
                user=user,
                env=own,
                cwd=home,
                output=log,
            )
        self.testbed.wait_until(lambda: self._is_ready(user), 1200, f"the service of {user}")
        self.run([python, "-m", "mirage", "mode", "act", "--user"], user, own)

    def kill_service(self, user: str) -> None:
        """SIGKILL, as a host that is lost."""
        process = self.services.pop(user)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def is_alive(self, user: str) -> bool:
        return user in self.services and self.services[user].poll() is None

    def _is_ready(self, user: str) -> bool:
        if not self.is_alive(user):
            raise RuntimeError((self.root / user / "serve.log").read_text())
        asks = ["curl", "-sf", "--unix-socket", str(self._get_socket(user)), "http://x/readyz"]
        return subprocess.run(asks, capture_output=True, check=False).returncode == 0

    def _get_socket(self, user: str) -> Path:
        return self.root / user / ".local" / "state" / "mirage" / "service" / "socket"

    # Chains

    def submit(self, arm: Arm, name: str, links: int) -> None:
        script = [str(self.root / "train.sh"), str(self.get_log(arm, name))]
        words = ["-p", "gpu", f"--time={LIMIT_MIN}", "-o", "/dev/null", *script]
        if arm.is_plain:
            job = ""
            for _ in range(links):
                behind = [f"--dependency=afterany:{job}"] if job else []
                job = self.run(["sbatch", "--parsable", *behind, *words], arm.user).stdout.strip()
            return
        url = {"MIRAGE_URL": f"unix://{self._get_socket(arm.user)}"} if arm.has_service else {}
        state = {"MIRAGE_STATE_DIR": str(self.get_state(arm, name))}
        wrapped = str(self.root / "plugin" / "sbatch")
        done = self.run([wrapped, f"--mirage-chain={links}", *words], arm.user, url | state)
        if arm.has_service and "is not registered" in done.stderr:
            self.unregistered.append(f"{arm.name} {name}")

    def get_state(self, arm: Arm, name: str) -> Path:
        """The folder that holds the chain's directory, and that one alone."""
        return self.root / arm.user / f"{arm.name}-{name}"

    def get_log(self, arm: Arm, name: str) -> Path:
        """The file with the job of each link whose script has begun, in order."""
        return self.root / arm.user / f"{arm.name}-{name}.jobs"

    def list_jobs(self, arm: Arm, name: str) -> list[int]:
        log = self.get_log(arm, name)
        return [int(word) for word in log.read_text().split()] if log.exists() else []

    def read_chain_log(self, arm: Arm, name: str) -> str:
        """What the chain's links have said; empty of a plain one."""
        return "".join(path.read_text() for path in self.get_state(arm, name).glob("*/log"))

    def count_unplanned(self, user: str) -> int:
        """The user's standbys that are held without a plan."""
        told = self.run(["squeue", "-h", "--me", "-t", "PD", "-o", "%E"], user).stdout
        return sum("afterany:" in line and "?after:" not in line for line in told.splitlines())

    def read_runs(self, jobs: Sequence[int]) -> dict[int, Ran]:
        """The jobs that have ended, by sacct."""
        words = ["sacct", "-n", "-P", "-X", "-j", ",".join(map(str, jobs))]
        words += ["-o", "JobID,Eligible,Start,End"]
        done = self.testbed.run(words, env={"SLURM_TIME_FORMAT": "%s"})
        rows = (line.split("|") for line in done.stdout.splitlines())
        found = [Ran(*map(int, row)) for row in rows if all(map(str.isdigit, row))]
        return {ran.job: ran for ran in found}

    def list_handovers(self, jobs: Sequence[int]) -> list[tuple[Handover, int]]:
        """Each hand-over between these jobs, and how long before its predecessor's end, in seconds,
        the successor was eligible (0: not before)."""
        runs = self.read_runs(jobs)
        found = []
        for one, other in itertools.pairwise(jobs):
            if one not in runs or other not in runs:
                break
            before, after = runs[one], runs[other]
            lead_s = max(0, before.end - after.eligible)
            found.append((Handover(before.end, after.start), lead_s))
        return found


class Load(threading.Thread):
    """bob's filler jobs, each of a link's size. The first batch fills the nodes, in a partition of
    its own for its waits of zero."""

    def __init__(self, testbed: Testbed, seed: int) -> None:
        super().__init__(name="filler", daemon=True)
        self._testbed, self._random = testbed, random.Random(seed)  # noqa: S311 - no secret
        self._stop_asked = threading.Event()
        self._level, self._next_step = sum(BACKLOG) // 2, 0.0
        self.submitted = 0

    def run(self) -> None:
        self._submit("long", SLOTS, shortest_min=1)
        while not self._stop_asked.wait(60 / self._testbed.speed):
            self._wander()
            self._submit("gpu", self._level - self._count_waiting())

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()

    def _wander(self) -> None:
        if self._testbed.now() < self._next_step:
            return
        self._next_step = self._testbed.now() + 60 * STEP_MIN
        step = self._random.choice((-4, -2, 0, 2, 4))
        least, most = BACKLOG
        self._level = max(least, min(most, self._level + step))

    def _count_waiting(self) -> int:
        words = ["squeue", "-h", "-u", "bob", "-n", "filler", "-t", "PD", "-p", "gpu", "-o", "%A"]
        done = self._testbed.run(words, check=False)
        return self._level if done.returncode else len(done.stdout.split())

    def _submit(self, partition: str, count: int, shortest_min: int | None = None) -> None:
        least, most = FILLER_MIN
        lines = []
        for _ in range(count):
            run_s = round(60 * self._random.uniform(shortest_min or least, most))
            lines.append(
                f"sbatch -Q -J filler -o /dev/null -p {partition} -t {most + 10} "
                f"--gres=gpu:{LINK_GPUS} --cpus-per-task=2 --mem=100M --wrap 'sleep {run_s}'"
            )
        if lines:
            self.submitted += len(lines)
            self._testbed.run(["sh", "-c", "\n".join(lines)], user="bob", check=False)


def give_patience(plugin: Path, speed: int) -> None:
    """Change a copy of the plugin for a cluster whose clock runs so many times faster."""
    for name, before, after in _LIMITS:
        _replace_once(plugin / name, before, after.replace("SPEED", str(speed)))


def _replace_once(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    if len(re.findall(re.escape(before), text)) != 1:
        raise RuntimeError(f"{path.name} does not hold {before!r} once")
    path.write_text(text.replace(before, after))
