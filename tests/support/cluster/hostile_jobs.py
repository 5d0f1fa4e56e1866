"""Jobs whose users write any text that Slurm takes, to make Mirage read what is not true."""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.domain.chain import Mark, find_mark
from tests.support.cluster import table_printer
from tests.support.cluster.commands import FakeCommands

COMMON = {
    "ArrayTaskID": "N/A", "HetJobID": "N/A", "PriorityLong": "7", "Priority": "7",
    "StartTime": "N/A", "Start": "Unknown", "EndTime": "N/A", "End": "Unknown",
    "TimeLimit": "1:00:00", "TimelimitRaw": "60", "Planned": "00:00:00", "NumNodes": "1",
    "NumCPUs": "2", "NNodes": "1", "NCPUS": "2", "tres-alloc": "cpu=2", "ReqTRES": "cpu=2",
    "AllocTRES": "", "tres-per-node": "N/A", "tres-per-job": "N/A", "tres-per-task": "N/A",
    "NumTasks": "1", "tres-per-socket": "N/A", "Sockets": "*", "NodeList": "",
    "ExitCode": "0:0", "ReqNodes": "", "State": "PENDING",
}  # fmt: skip
"""Cells that are the same for all jobs here, by field name of squeue or sacct."""

_QUEUE_TEXTS = ("Dependency", "Reason", "Partition", "QOS")
"""More fields of squeue that are hostile here, whoever may write them on a real cluster."""

GUESSES = ("\x1f", "\x1f\x1f", "|", "\n", "\t", "^_", "\x1e", "\x1d")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileJob:
    """One job as its user submitted it. `lies`: rows that its user wrote into texts, by field."""

    job_id: int
    submit: int
    uid: int
    name: str
    comment: str
    submit_line: str
    account: str
    in_queue: dict[str, str]
    """Texts of squeue alone, by field."""
    lies: dict[str, list[dict[str, str] | None]] = field(default_factory=dict)
    guess: str = "\x1f"

    @property
    def user(self) -> str:
        return f"user{self.uid}"

    @property
    def is_honest(self) -> bool:
        """Whether no row is in its texts; these may be hostile all the same."""
        return not self.lies

    def marks(self) -> set[Mark | None]:
        """Return all marks that its user wrote into it; None: no mark."""
        lied_texts = [lie.get("Comment", "") for lies in self.lies.values() for lie in lies if lie]
        return {find_mark(text) for text in (self.comment, self.submit_line, *lied_texts)} | {None}

    def row(self) -> dict[str, str]:
        job_id, submit, uid = str(self.job_id), str(self.submit), str(self.uid)
        cells = {"JobID": job_id, "JobIDRaw": job_id, "SubmitTime": submit, "Submit": submit}
        cells |= {"EligibleTime": submit, "Eligible": submit, "UserID": uid, "UID": uid}
        cells |= {"UserName": self.user, "User": self.user, "Account": self.account}
        cells |= {"Name": self.name, "JobName": self.name, "Comment": self.comment}
        return cells | {"SubmitLine": self.submit_line}


def decode_as_read(text: str) -> str:
    """Return the text as Mirage reads it: U+FFFD for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode(errors="replace")


class JobMaker:
    """Makes jobs: the same ones for the same seed."""

    def __init__(self, seed: int, *, users: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to be the same each time
        self._uids = list(range(2001, 2001 + users))

    def jobs(self, count: int) -> list[HostileJob]:
        honest_jobs = [self._job(job_id) for job_id in range(1, count + 1)]
        return [self._with_lies(job, honest_jobs) for job in honest_jobs]

    def _job(self, job_id: int) -> HostileJob:
        return HostileJob(
            job_id=job_id,
            submit=1_700_000_000 + job_id // 3,
            uid=self._random.choice(self._uids),
            name=self._text(200),
            comment=self._text(1000) or "x",
            submit_line=self._text(60_000),
            account=self._text(40),
            in_queue={},
            guess=self._random.choice(GUESSES),
        )

    def _text(self, longest: int) -> str:
        parts = [self._part() for _ in range(self._random.randrange(6))]
        if self._random.random() < 0.01:
            parts.append(self._random.choice("ab\n ") * longest)
        return "".join(parts)

    def _part(self) -> str:
        rng = self._random
        return rng.choice(
            [
                rng.choice(GUESSES) * rng.randrange(1, 4),
                f"\x1f{base64.urlsafe_b64encode(rng.randbytes(9)).decode()}",
                f"\x1f{rng.randbytes(4).hex()}\x1f",
                f" mirage:{rng.choice('abcdefgh') * 8}:{rng.randrange(9)} ",
                chr(rng.randrange(1, 32)),
                chr(0xDC00 + rng.randrange(128, 256)),  # a byte that is no UTF-8
                rng.choice(["\r\n", "\u2028", "\ufeff", "é", "🙂", "%s%n", "$(id)", "'; --"]),
                rng.choice(["(null)", "N/A", "None assigned", "JobID", "JobIDRaw|Submit|UID"]),
                "\x1f".join(("7", "1700000001", "2001", "x", "y", "mirage:hhhhhhhh:1")) + "\x1f\n",
            ]
        )

    def _with_lies(self, job: HostileJob, all_jobs: Sequence[HostileJob]) -> HostileJob:
        """Give a third of the jobs lies: rows about jobs of others, or with another's identity."""
        if self._random.randrange(3):
            return job
        places = self._random.sample(("Name", "JobName", "Comment", "SubmitLine"), 2)
        lies = {name: self._lies(job, all_jobs) for name in places}
        in_queue = {name: self._text(40) for name in _QUEUE_TEXTS}
        return HostileJob(**{**_fields(job), "lies": lies, "in_queue": in_queue})

    def _lies(self, job: HostileJob, all_jobs: Sequence[HostileJob]) -> list[dict[str, str] | None]:
        return [self._lie(job, all_jobs) for _ in range(self._random.randrange(1, 4))]

    def _lie(self, job: HostileJob, all_jobs: Sequence[HostileJob]) -> dict[str, str] | None:
        rng = self._random
        victim = rng.choice(all_jobs)
        while victim.uid == job.uid:
            victim = rng.choice(all_jobs)
        mark = f"mirage:liarliar:{rng.randrange(9)}"
        identities = {
            "its texts": (victim.job_id, victim.submit, victim.uid),
            "its owner": (victim.job_id, victim.submit, job.uid),
            "its submission": (victim.job_id, victim.submit + 1, victim.uid),
            "nobody's": (10_000_000 + rng.randrange(1000), victim.submit, victim.uid),
            "own, with another's uid": (job.job_id, job.submit, victim.uid),
            "own, with another account": (job.job_id, job.submit, job.uid),
            "": None,
        }
        identity = identities[rng.choice(list(identities))]
        if identity is None:
            return None
        fields = {**_fields(victim), "lies": {}, "name": "lie", "comment": mark}
        fields |= {"submit_line": mark, "account": "lie"}
        fields |= dict(zip(("job_id", "submit", "uid"), identity, strict=True))
        return COMMON | HostileJob(**fields).row()


def _fields(job: HostileJob) -> dict[str, Any]:
    return {name: getattr(job, name) for name in HostileJob.__dataclass_fields__}


def install(
    commands: FakeCommands,
    folder: Path,
    jobs: Sequence[HostileJob],
    *,
    helpformat: str,
    separator_known: bool = False,
) -> Path:
    """Have squeue, sacct and scontrol show `jobs`. `separator_known`: users know squeue's too."""
    table = folder / "table.json"
    rows = [
        {"row": job.row(), "in_queue": job.in_queue, "lies": job.lies, "guess": job.guess}
        for job in jobs
    ]
    content: dict[str, Any] = {"common": COMMON, "jobs": rows, "helpformat": helpformat}
    content["separator_known"] = separator_known
    table.write_text(json.dumps(content), encoding="ascii")
    for name in ("squeue", "sacct", "scontrol"):
        words = f"{sys.executable} -IS {table_printer.__file__} {table} {name}"
        commands.runs(name, f'#!/bin/sh\nexec {words} "$@"\n')
    return table
