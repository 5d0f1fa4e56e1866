"""Jobs whose users write whatever Slurm takes, to be believed something that they are not."""

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
"""By field name, of squeue's and sacct's alike: what is the same of all jobs here."""

_QUEUE_TEXTS = ("Dependency", "Reason", "Partition", "QOS")
"""Fields of squeue's that hold what is hostile here as well, whoever may write it on a real one."""

GUESSES = ("\x1f", "\x1f\x1f", "|", "\n", "\t", "^_", "\x1e", "\x1d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One job as its user made it. `lies`: rows within its texts, by field."""

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
    def honest(self) -> bool:
        """Hostile it may be; but no row is in its texts."""
        return not self.lies

    def marks(self) -> set[Mark | None]:
        """All that its user wrote into it."""
        lied = [lie.get("Comment", "") for lies in self.lies.values() for lie in lies if lie]
        return {find_mark(text) for text in (self.comment, self.submit_line, *lied)} | {None}

    def row(self) -> dict[str, str]:
        job_id, submit, uid = str(self.job_id), str(self.submit), str(self.uid)
        known = {"JobID": job_id, "JobIDRaw": job_id, "SubmitTime": submit, "Submit": submit}
        known |= {"EligibleTime": submit, "Eligible": submit, "UserID": uid, "UID": uid}
        known |= {"UserName": self.user, "User": self.user, "Account": self.account}
        known |= {"Name": self.name, "JobName": self.name, "Comment": self.comment}
        return known | {"SubmitLine": self.submit_line}


def shown(text: str) -> str:
    """As Mirage has it: bytes that are no UTF-8 become marks of replacement."""
    return text.encode("utf-8", "surrogateescape").decode(errors="replace")


class Maker:
    """The same jobs for the same seed."""

    def __init__(self, seed: int, *, users: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to be the same each time
        self._uids = list(range(2001, 2001 + users))

    def jobs(self, count: int) -> list[Made]:
        plain = [self._job(job_id) for job_id in range(1, count + 1)]
        return [self._with_lies(job, plain) for job in plain]

    def _job(self, job_id: int) -> Made:
        return Made(
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
        chance = self._random
        return chance.choice(
            [
                chance.choice(GUESSES) * chance.randrange(1, 4),
                f"\x1f{base64.urlsafe_b64encode(chance.randbytes(9)).decode()}",
                f"\x1f{chance.randbytes(4).hex()}\x1f",
                f" mirage:{chance.choice('abcdefgh') * 8}:{chance.randrange(9)} ",
                chr(chance.randrange(1, 32)),
                chr(0xDC00 + chance.randrange(128, 256)),  # a byte that is no UTF-8
                chance.choice(["\r\n", "\u2028", "\ufeff", "é", "🙂", "%s%n", "$(id)", "'; --"]),
                chance.choice(["(null)", "N/A", "None assigned", "JobID", "JobIDRaw|Submit|UID"]),
                "\x1f".join(("7", "1700000001", "2001", "x", "y", "mirage:hhhhhhhh:1")) + "\x1f\n",
            ]
        )

    def _with_lies(self, job: Made, all_jobs: Sequence[Made]) -> Made:
        """A third of the jobs: rows about what is not their user's."""
        if self._random.randrange(3):
            return job
        places = self._random.sample(("Name", "JobName", "Comment", "SubmitLine"), 2)
        lies = {name: self._lies(job, all_jobs) for name in places}
        in_queue = {name: self._text(40) for name in _QUEUE_TEXTS}
        return Made(**{**_fields(job), "lies": lies, "in_queue": in_queue})

    def _lies(self, job: Made, all_jobs: Sequence[Made]) -> list[dict[str, str] | None]:
        return [self._lie(job, all_jobs) for _ in range(self._random.randrange(1, 4))]

    def _lie(self, job: Made, all_jobs: Sequence[Made]) -> dict[str, str] | None:
        chance = self._random
        victim = chance.choice(all_jobs)
        while victim.uid == job.uid:
            victim = chance.choice(all_jobs)
        mark = f"mirage:liarliar:{chance.randrange(9)}"
        about = {
            "its texts": (victim.job_id, victim.submit, victim.uid),
            "its owner": (victim.job_id, victim.submit, job.uid),
            "its submission": (victim.job_id, victim.submit + 1, victim.uid),
            "nobody's": (10_000_000 + chance.randrange(1000), victim.submit, victim.uid),
            "own, with another's uid": (job.job_id, job.submit, victim.uid),
            "own, with another account": (job.job_id, job.submit, job.uid),
            "": None,
        }
        told = about[chance.choice(list(about))]
        if told is None:
            return None
        fields = {**_fields(victim), "lies": {}, "name": "lie", "comment": mark}
        fields |= {"submit_line": mark, "account": "lie"}
        fields |= dict(zip(("job_id", "submit", "uid"), told, strict=True))
        return COMMON | Made(**fields).row()


def _fields(job: Made) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Made.__dataclass_fields__}


def install(
    commands: FakeCommands,
    folder: Path,
    jobs: Sequence[Made],
    *,
    helpformat: str,
    guessed: bool = False,
) -> Path:
    """squeue, sacct and scontrol tell of `jobs`; `guessed`: users know squeue's separator, too."""
    table = folder / "table.json"
    told = [
        {"row": job.row(), "in_queue": job.in_queue, "lies": job.lies, "guess": job.guess}
        for job in jobs
    ]
    content = {"common": COMMON, "jobs": told, "helpformat": helpformat, "guessed": guessed}
    table.write_text(json.dumps(content), encoding="ascii")
    for name in ("squeue", "sacct", "scontrol"):
        words = f"{sys.executable} -IS {table_printer.__file__} {table} {name}"
        commands.runs(name, f'#!/bin/sh\nexec {words} "$@"\n')
    return table
