"""Answers of a real Slurm 22.05.8: tests/data/slurm-22.05-queries, and slurm-22.05."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mirage.domain.job import JobId

_DATA = Path(__file__).resolve().parents[1] / "data"
_QUERIES = _DATA / "slurm-22.05-queries"

SEPARATOR = "\x1f7e57\x1f"


def answer(name: str) -> str:
    """The bytes as they came: newlines inside fields are part of the test."""
    return (_QUERIES / name).read_bytes().decode()


@cache
def taken_at() -> int:
    return int(json.loads(answer("jobs.json"))["taken_at"])


def job_id(fate: str) -> JobId:
    """The job of that fate; deploy/testbed/workload.py says what was done to it."""
    return JobId(int(json.loads(answer("jobs.json"))["jobs"][fate]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    argv: list[str]
    code: int
    stdout: str
    stderr: str


def outcome(name: str) -> Outcome:
    """How a command ended that was refused, or asked in vain."""
    seen = json.loads((_DATA / "slurm-22.05" / f"{name}.json").read_text())
    return Outcome(
        argv=seen["argv"],
        code=seen["returncode"],
        stdout=seen["stdout"],
        stderr=seen["stderr"],
    )
