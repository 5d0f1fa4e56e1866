"""What is there at one instant: chains in the database, jobs in Slurm, and the audit."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.acceptance.matrix.people import People
from tests.support.identity.site import URL

BY_ADMIN = "JobHeldAdmin"
_SEEN = "%A|%T|%r|%Q|%E|%u|%k"


@dataclass(frozen=True, slots=True)
class Job:
    """As Slurm shows it to root."""

    job_id: int
    state: str
    reason: str
    priority: int
    dependency: str
    user: str
    comment: str

    @property
    def held(self) -> bool:
        return self.state == "PENDING" and self.priority == 0

    @property
    def over(self) -> bool:
        return self.state not in {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING"}


NO_JOB = Job(0, "GONE", "", 1, "", "", "")
"""One that Slurm has forgotten, or that was never there."""


@dataclass(frozen=True, slots=True)
class Row:
    """Of a chain, as the database has it."""

    uid: int
    state: str
    actor: str | None
    price: float
    policy: str | None
    planned: int | None
    links: tuple[tuple[int, int], ...]
    """Index and job."""


@dataclass(frozen=True, slots=True)
class Entry:
    actor: str
    event: str
    chain_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    chains: dict[str, Row]
    jobs: dict[int, Job]
    audit: list[Entry]

    def job(self, job_id: int) -> Job:
        return self.jobs.get(job_id, NO_JOB)

    def marked(self, chain_id: str) -> list[Job]:
        return [job for job in self.jobs.values() if f"mirage:{chain_id}:" in job.comment]

    def has(self, actor: str, event: str, chain_id: str) -> bool:
        """Whether the audit tells so."""
        return any((e.actor, e.event, e.chain_id) == (actor, event, chain_id) for e in self.audit)


def look(people: People) -> Look:
    path = people.root / "mirage" / "mirage.db"
    with closing(sqlite3.connect(path)) as db:
        links: dict[str, list[tuple[int, int]]] = {}
        for chain_id, index, job_id in db.execute(
            'SELECT chain_id, "index", job_id FROM links ORDER BY chain_id, "index"'
        ):
            links.setdefault(chain_id, []).append((index, job_id))
        chains = {
            chain_id: Row(uid, state, actor, price, policy, planned, tuple(links.get(chain_id, ())))
            for chain_id, uid, state, actor, price, policy, planned in db.execute(
                "SELECT chain_id, uid, state, actor, overlap_price, policy, links_planned"
                " FROM chains"
            )
        }
        audit = [
            Entry(actor, event, chain_id, json.loads(detail))
            for actor, event, chain_id, detail in db.execute(
                "SELECT actor, event, chain_id, detail FROM audit ORDER BY id"
            )
        ]
    return Look(chains=chains, jobs=_jobs(people), audit=audit)


def _jobs(people: People) -> dict[int, Job]:
    """Nobody here writes a `|` or a line's end into a comment."""
    shown = people.testbed.run(["squeue", "-h", "-a", "-t", "all", "-o", _SEEN]).stdout
    found = {}
    for line in shown.splitlines():
        number, state, reason, priority, dependency, user, comment = line.split("|")
        found[int(number)] = Job(
            int(number), state, reason, int(priority), dependency, user, comment
        )
    return found


def look_twice_more(people: People) -> None:
    """Until the service's second look from now: what follows from the first is done by then."""
    seen = {_as_of(people)}

    def twice() -> bool:
        seen.add(_as_of(people))
        return len(seen) > 2

    people.testbed.wait_until(twice, 300, "two looks of the service")


def _as_of(people: People) -> str:
    answer = people.http.get(
        f"{URL}/api/v1/cluster",
        headers={"Authorization": f"Bearer {people.tokens['Operator']}"},
    )
    return str(answer.json()["as_of"])
