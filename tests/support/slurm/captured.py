"""Answers of real Slurms, a folder for each kind and release: tests/data/slurm-RELEASE[-KIND].

Tests of what reads them take the fixture `captures` and so run over every release; what a release
tells in another way is in its expected.json. `answer` and its sisters are the oldest release's,
for tests that need a real answer and no matter whose.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mirage.domain.job import JobId
from tests.support.paths import DATA

_EXPECTED = "expected.json"

SEPARATOR = "\x1f7e57\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    argv: list[str]
    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Captures:
    """What one release answered."""

    release: str

    def text(self, name: str, kind: str = "") -> str:
        """The bytes as they came: newlines inside fields are part of the test."""
        folder = "-".join(["slurm", self.release, *([kind] if kind else [])])
        return (DATA / folder / name).read_bytes().decode()

    def answer(self, name: str) -> str:
        """To a question of Mirage's own."""
        return self.text(name, "queries")

    def outcome(self, name: str) -> Outcome:
        """How a command ended that was refused, or asked in vain."""
        seen = json.loads(self.text(f"{name}.json"))
        return Outcome(
            argv=seen["argv"],
            code=seen["returncode"],
            stdout=seen["stdout"],
            stderr=seen["stderr"],
        )

    def rest_versions(self) -> list[str]:
        """Versions of the API of which slurmrestd was asked."""
        folder = DATA / f"slurm-{self.release}-rest"
        return sorted(path.name.removesuffix("-jobs.json") for path in folder.glob("v*-jobs.json"))

    def taken_at(self) -> int:
        return int(json.loads(self.answer("jobs.json"))["taken_at"])

    def job_id(self, fate: str) -> JobId:
        """The job of that fate; deploy/testbed/workload.py says what was done to it."""
        return JobId(int(json.loads(self.answer("jobs.json"))["jobs"][fate]))

    def uid(self, user: str) -> int:
        """As the host of this capture has given it."""
        return int(self.expected()["uids"][user])

    def expected(self) -> Mapping[str, Any]:
        """What this release tells otherwise than another, or of this one capture alone."""
        told: Mapping[str, Any] = json.loads(self.answer(_EXPECTED))
        return told


@cache
def releases() -> tuple[str, ...]:
    """Those whose answers are kept, the oldest first."""
    named = (path.parent.name.split("-")[1] for path in DATA.glob(f"slurm-*-queries/{_EXPECTED}"))
    return tuple(sorted(named, key=lambda name: [int(part) for part in name.split(".")]))


ALL = tuple(Captures(release) for release in releases())
answer, outcome, taken_at, job_id = ALL[0].answer, ALL[0].outcome, ALL[0].taken_at, ALL[0].job_id
SDIAG = ALL[0].text("sdiag.txt")
