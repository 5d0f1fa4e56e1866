"""The real sbatch and the wrapped one side by side, beside a service in each of four states."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.handover.scene import PORT, Scene
from tests.support.slurm_plugin.invocations import SCRIPTS, Invocation
from tests.support.slurm_testbed import Testbed

REAL = "/usr/bin/sbatch"
RUNNER = Path(__file__).with_name("runner.py")
_ELSEWHERE = {"MIRAGE_URL", "MIRAGE_CHAIN", "SLURM_JOB_NAME"}
_STATE = Path("/var/lib/mirage-testbed/ctld")
PARTITIONS = ("gpu", "debug", "long")
STATES = ("up", "slow", "down", "garbage")
SLOW_S = 240.0
NOBODY = "http://127.0.0.1:9"  # nothing listens there
# Fields that differ between two submissions of the same words.
VARYING_FIELDS = {"JobId", "HetJobId", "HetJobIdSet", "ArrayJobId", "SubmitTime", "EligibleTime"}
VARYING_FIELDS |= {"AccrueTime", "LastSchedEval", "StartTime", "EndTime", "Priority", "Scheduler"}
VARYING_FIELDS |= {"NodeList", "BatchHost", "RunTime", "PreemptEligibleTime"}
# Later releases show how the job was submitted.
VARYING_FIELDS |= {"SubmitLine"}
# Of several reasons slurmctld shows the one that it met last.
VARYING_FIELDS |= {"Reason"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one call. `jobs`: the submitted jobs."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    cpu_s: float
    jobs: tuple[int, ...]

    def without_ids(self, text: str) -> str:
        for job in self.jobs:
            text = without_id(job, text)
        # An estimate burns a job id and holds the second that it was made in.
        return re.sub(r"Job \d+ to start at \S+", "Job <job> to start at <time>", text)

    def own_lines(self) -> list[str]:
        """Return the wrapper's own lines."""
        return [line for line in self.stderr.splitlines() if line.startswith("mirage: ")]

    def get_output(self) -> tuple[int, str, str]:
        """Return exit code and both outputs, without job ids and the wrapper's own lines."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith("mirage: ")]
        return self.code, self.without_ids(self.stdout), self.without_ids("\n".join(lines))


class Babbler(socketserver.ThreadingTCPServer):
    """A faulty service: it is silent for `delay_s`, then sends bytes that are no HTTP."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, delay_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Babble)
        self.delay_s = delay_s
        self.requests = 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Babble(socketserver.BaseRequestHandler):
    server: Babbler
    request: socket.socket

    def handle(self) -> None:
        self.server.requests += 1
        self.request.recv(65536)
        self.server.over.wait(self.server.delay_s)
        with contextlib.suppress(OSError):
            self.request.sendall(b"\x00\xff 200 \r\n\r\n{]" * 500)


@contextlib.contextmanager
def babbling(delay_s: float) -> Iterator[Babbler]:
    with Babbler(delay_s) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@dataclass
class Side:
    """alice at a directory of her own, and the services that her environment may name."""

    scene: Scene
    home: Path
    urls: dict[str, str] = field(default_factory=dict)

    @classmethod
    def set_up(cls, scene: Scene, slow: Babbler, garbage: Babbler) -> Side:
        # As the installation says: alice may not write there, and would compile at each call.
        plugin = str(scene.root / "slurm_plugin")
        subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", plugin], check=True)
        scene.start_service(mode="shadow")
        side = cls(scene, scene.root / "alice")
        side.urls = {
            "up": f"http://127.0.0.1:{PORT}",
            "slow": slow.url,
            "down": NOBODY,
            "garbage": garbage.url,
        }
        for name, text in SCRIPTS.items():
            side.write(name, text)
        (side.home / "bin" / "onpath.sh").chmod(0o755)
        (side.home / "closed.sh").chmod(0)
        side.write("env.list", "ONE=1\0TWO=2\0")
        return side

    @property
    def testbed(self) -> Testbed:
        return self.scene.testbed

    @property
    def wrapper(self) -> str:
        return str(self.scene.root / "slurm_plugin" / "sbatch")

    def write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        entry = pwd.getpwnam("alice")
        for each in (path, path.parent):
            os.chown(each, entry.pw_uid, entry.pw_gid)

    def call(self, invocation: Invocation, *, wrapped: bool, state: str = "down") -> dict[str, Any]:
        """Return one call in the runner's form. No locale is set, as under cron."""
        variables = {k: v for k, v in self.testbed.env("alice").items() if k != "LC_ALL"}
        plugin = str(self.scene.root / "slurm_plugin")
        return {
            "argv": ["sbatch", *invocation.words],
            "program": self.wrapper if wrapped else REAL,
            "stdin": invocation.stdin,
            "stdin_file": invocation.stdin_file,
            "cwd": str(self.home),
            "env": variables
            | {
                "PATH": f"{plugin}:{self.home}/bin:{variables['PATH']}",
                "MIRAGE_URL": self.urls[state],
                "MIRAGE_STATE_DIR": str(self.home / "state"),
            }
            | invocation.env,
        }

    def run(self, calls: Sequence[dict[str, Any]]) -> list[Answer]:
        """Make these calls in turn as alice."""
        process = self.testbed.run(
            ["/usr/bin/python3", "-IS", "-c", RUNNER.read_text()],
            user="alice",
            cwd=self.home,
            input=json.dumps(calls),
        )
        outcomes = [json.loads(line) for line in process.stdout.splitlines()]
        return [Answer(**{**outcome, "jobs": tuple(outcome["jobs"])}) for outcome in outcomes]

    # What became of the jobs

    def shut(self, *, shut: bool = True) -> None:
        """Close the partitions, so that what is submitted stays as it was submitted; or open."""
        for name in PARTITIONS:
            state = "DOWN" if shut else "UP"
            self.testbed.run(["scontrol", "update", f"PartitionName={name}", f"State={state}"])

    def read_jobs(self) -> dict[int, dict[str, str]]:
        """Return each job's fields as scontrol shows them."""
        text = self.testbed.run(["scontrol", "-o", "show", "job"]).stdout
        jobs = {}
        for record in re.split(r"(?m)^(?=JobId=)", text)[1:]:  # an argument may hold a line break
            parts = _KEY.split(record.rstrip("\n"))[1:]
            fields = dict(zip(parts[::2], parts[1::2], strict=True))
            jobs[int(fields["JobId"])] = fields
        return jobs

    def stored(self, job: int, name: str) -> bytes | None:
        """Return what slurmctld keeps of a pending job: its `script` or its `environment`.

        For a heterogeneous job the leader has them.
        """
        path = _STATE / f"hash.{job % 10}" / f"job.{job}" / name
        return path.read_bytes() if path.exists() else None

    def environment(self, job: int) -> dict[str, str] | None:
        """Return the stored environment, without the service's address and the job's names.

        The job of a script on standard input is called sbatch, but its stored environment does not
        say so, as it does of a carrier of that name; what the job itself sees is the same.
        """
        stored = self.stored(job, "environment")
        if stored is None:
            return None
        entries = stored[4:].decode().split("\0")  # behind their number
        variables = dict(entry.partition("=")[::2] for entry in entries if entry)
        return {k: v for k, v in variables.items() if k not in _ELSEWHERE}

    def chain_of(self, job: int) -> Path:
        """The directory of the chain that this job is a link of, by the job's comment."""
        chain = self.read_jobs()[job]["Comment"].split("mirage:")[-1].partition(":")[0]
        return self.home / "state" / chain

    def wait_for(self, jobs: Iterable[int], cluster_s: float) -> None:
        """Wait until these jobs have ended."""
        ids = ",".join(map(str, jobs))

        def ended() -> bool:
            words = ["squeue", "-h", "-j", ids, "-t", "PD,R,CG,S", "-o", "%A"]
            return not self.testbed.run(words, check=False).stdout.strip()

        self.testbed.wait_until(ended, cluster_s, "the end of the jobs")


_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z/:]*)=")


def without_id(job: int, text: str) -> str:
    return re.sub(rf"(?<!\d){job}(?!\d)", "<job>", text)


def same_job(job: int, fields: dict[str, str], but: Iterable[str] = ()) -> dict[str, str]:
    """Return the fields that must not depend on which sbatch submitted the job."""
    compared = {k: v for k, v in fields.items() if k not in VARYING_FIELDS and k not in but}
    for name in {"StdOut", "StdErr", "StdIn"} & compared.keys():
        compared[name] = without_id(job, Path(compared[name]).name)
    return compared | {"held": str(fields["Priority"] == "0")}
