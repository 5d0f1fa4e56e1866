"""A link that plans its successor's release: Slurm's commands, the chain's files, the program."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm

OWN, NEXT = 101, 102
HOUR = 3600
SCONTROL = r"""#!/bin/sh
printf '%s\n' "$*" >>{home}/updates
if [ -f {home}/scontrol.err ]; then cat {home}/scontrol.err >&2; exit 1; fi
job=${{2#JobId=}}
printf '%s\n' "${{3#Dependency=}}" >{home}/dependency.$job
"""
SACCT = r"""#!/bin/sh
printf '%s\n' "$*" >>{home}/sacct.asked
[ "$SLURM_TIME_FORMAT" = %s ] || exit 1
cat {home}/sacct.rows
exit "$(cat {home}/sacct.code)"
"""
FOLDERS = ("beat", "deadline", "ends", "jobs", "plans", "started", "waited")


@dataclass(frozen=True, slots=True)
class Planning:
    """A chain: link 1 (job 101) began an hour ago and has a day; link 2 (job 102) is queued."""

    slurm: FakeSlurm
    chain: Path
    start: int
    end: int
    words: dict[str, str] = field(default_factory=dict)
    program: Sequence[str | Path] = (sys.executable, "-IS", PLUGIN / "mirage_plan.py")

    @classmethod
    def on(cls, slurm: FakeSlurm, *, limit_s: int = 24 * HOUR, began_s: int = HOUR) -> Planning:
        slurm.command("scontrol", SCONTROL)
        slurm.command("sacct", SACCT)
        chain = slurm.root / "chain"
        for folder in FOLDERS:
            (chain / folder).mkdir(parents=True, mode=0o700)
        chain.chmod(0o700)
        start = int(time.time()) - began_s
        planning = cls(slurm, chain, start, start + limit_s)
        planning.has("jobs/1", OWN)
        planning.has("jobs/2", NEXT)
        planning.has("started/1", OWN)
        planning.runs()
        slurm.job_in_full(NEXT, "PENDING", dependency=f"afterany:{OWN}(unfulfilled)")
        planning.waited([])
        planning.queues("1002 PENDING Resources")
        return planning

    def has(self, name: str, text: object) -> None:
        (self.chain / name).write_text(f"{text}\n")

    def runs(self, *, state: str = "RUNNING", end: int | str | None = None, nodes: int = 1) -> None:
        times = (self.start - 60, self.start, self.end if end is None else end)
        self.slurm.job_in_full(OWN, state, times=times, nodes=nodes)

    def waited(
        self, waits_s: Iterable[int], *, nodes: int = 1, minutes: object = 1440, code: int = 0
    ) -> None:
        """Set sacct's answer: jobs that waited so long, the first of them started a day ago."""
        day_ago = int(time.time()) - 24 * HOUR
        rows = [
            f"{start - wait}|{start - wait}|{start}|{nodes}|{minutes}|600|COMPLETED\n"
            for start, wait in enumerate(waits_s, day_ago)
        ]
        self.answers("".join(rows), code)

    def queues(self, *rows: str) -> None:
        """Set what squeue shows of the partition: user, state and reason of each job."""
        (self.slurm.root / "partition").write_text("".join(f"{row}\n" for row in rows))

    def answers(self, rows: str, code: int = 0) -> None:
        (self.slurm.root / "sacct.rows").write_text(rows)
        (self.slurm.root / "sacct.code").write_text(f"{code}\n")

    def is_at(self, link: int) -> None:
        """Make this the number of the planning link; the links before it have ended."""
        for index in range(1, link):
            self.has(f"ends/{index}", "timeout")
        self.has(f"jobs/{link}", OWN)
        self.has(f"jobs/{link + 1}", NEXT)
        self.words["link"] = str(link)

    def plan(
        self, turn: int = 1, *, env: Mapping[str, str] | None = None, **words: object
    ) -> subprocess.CompletedProcess[str]:
        arguments: dict[str, object] = {
            "dir": self.chain,
            "chain": "0f0000000000000000ab",
            "link": 1,
            "job": OWN,
            "turn": turn,
            "style": "sequential",
            "service": "none",
            "partition": "gpu",
            "qos": "normal",
        }
        arguments |= self.words | words
        return subprocess.run(
            [
                *self.program,
                *(f"{name}={value}" for name, value in arguments.items()),
            ],
            capture_output=True,
            check=False,
            text=True,
            env=self.slurm.environ | {"MIRAGE_CLIENT_CONF": str(self.conf)} | dict(env or {}),
        )

    @property
    def conf(self) -> Path:
        return self.slurm.root / "client.conf"

    def minutes(self) -> int | None:
        """Return after how many minutes of link 1 link 2 is eligible; None: at link 1's end."""
        dependency = self.slurm.dependency(NEXT).replace("(unfulfilled)", "")
        plain, _, term = dependency.partition("?")
        assert plain == f"afterany:{OWN}", dependency
        if not term:
            return None
        head, _, minutes = term.partition("+")
        assert head == f"after:{OWN}", dependency
        return int(minutes)

    def lead_minutes(self) -> int | None:
        minutes = self.minutes()
        return None if minutes is None else (self.end - self.start) // 60 - minutes

    def updates(self) -> list[str]:
        return self._lines("updates")

    def questions(self) -> list[str]:
        """Return squeue's arguments, a line for each question."""
        return self._lines("questions")

    def asked_sacct(self) -> list[str]:
        return self._lines("sacct.asked")

    def _lines(self, name: str) -> list[str]:
        path = self.slurm.root / name
        return path.read_text().splitlines() if path.exists() else []

    def log(self) -> str:
        path = self.chain / "log"
        return path.read_text() if path.exists() else ""

    def again_at(self) -> int:
        return int((self.chain / "plans" / "1").read_text().split()[0])
