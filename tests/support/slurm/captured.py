"""Captured answers of real Slurms, in a folder for each kind and release.

The folders are tests/data/slurm-RELEASE[-KIND]. Tests of parsers take the fixture `captures` and so
run over every release. A release's expected.json has the values in which it differs from others.
`answer`, `outcome`, `taken_at` and `job_id` are those of the oldest release, for tests that need a
real answer of any release.
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
    """The answers of one release."""

    release: str

    def text(self, name: str, kind: str = "") -> str:
        """Return a file's text without translating newlines: those inside fields are tested too."""
        folder = "-".join(["slurm", self.release, *([kind] if kind else [])])
        return (DATA / folder / name).read_bytes().decode()

    def answer(self, name: str) -> str:
        """Return Slurm's answer to one of Mirage's own queries."""
        return self.text(name, "queries")

    def outcome(self, name: str) -> Outcome:
        """Return the outcome of a command that Slurm refused or could not answer."""
        document = json.loads(self.text(f"{name}.json"))
        return Outcome(
            argv=document["argv"],
            code=document["returncode"],
            stdout=document["stdout"],
            stderr=document["stderr"],
        )

    def rest_versions(self) -> list[str]:
        """List the versions of the API for which slurmrestd's answers are kept."""
        folder = DATA / f"slurm-{self.release}-rest"
        return sorted(path.name.removesuffix("-jobs.json") for path in folder.glob("v*-jobs.json"))

    def taken_at(self) -> int:
        return int(json.loads(self.answer("jobs.json"))["taken_at"])

    def job_id(self, fate: str) -> JobId:
        """Return the job of that fate; deploy/testbed/workload.py has the cause of each fate."""
        return JobId(int(json.loads(self.answer("jobs.json"))["jobs"][fate]))

    def uid(self, user: str) -> int:
        """Return the user's uid on the host of this capture."""
        return int(self.expected()["uids"][user])

    def expected(self) -> Mapping[str, Any]:
        """Return the values that differ between releases, or that this capture alone has."""
        expectations: Mapping[str, Any] = json.loads(self.answer(_EXPECTED))
        return expectations


@cache
def releases() -> tuple[str, ...]:
    """List the releases whose answers are kept, the oldest first."""
    names = (path.parent.name.split("-")[1] for path in DATA.glob(f"slurm-*-queries/{_EXPECTED}"))
    return tuple(sorted(names, key=lambda name: [int(part) for part in name.split(".")]))


ALL = tuple(Captures(release) for release in releases())
answer, outcome, taken_at, job_id = ALL[0].answer, ALL[0].outcome, ALL[0].taken_at, ALL[0].job_id
SDIAG = ALL[0].text("sdiag.txt")
