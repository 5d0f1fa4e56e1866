"""How a cell is tried: what it needs, what the actor does, and how one sees what came of it."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.acceptance.matrix.expected import Expected
from tests.acceptance.matrix.looking import BY_ADMIN, NO_JOB, Job, Look
from tests.acceptance.matrix.people import USERS, People, Said

PRICE, POLICY = 7.5, "at-once"
PLANNED = 7
"""Links of a chain that an actor registers: adopted ones have no number."""


class Needs(StrEnum):
    """What of alice's there must be."""

    NOTHING = "nothing"
    PLAIN = "plain"
    """Two jobs with marks: one that runs, and its standby."""
    CARRIED = "carried"
    """The same, by the wrapped sbatch, with a directory."""


@dataclass
class Chain:
    """One of alice's, in the cell's hands."""

    chain_id: str
    first: int
    standby: int


@dataclass
class Cell:
    expected: Expected
    chains: list[Chain] = field(default_factory=list)
    own_id: str = ""
    """Of a chain that the actor would have."""
    own_jobs: list[int] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    before: object = None

    @property
    def actor(self) -> str:
        return self.expected.actor

    @property
    def user(self) -> str:
        return USERS.get(self.actor, "")

    @property
    def chain(self) -> Chain:
        return self.chains[0]


Do = Callable[[People, Cell], None]
Act = Callable[[People, Cell], Said]
Check = Callable[[People, Cell, Look], bool]


def always(_people: People, _cell: Cell, _look: Look) -> bool:
    return True


def state(cell: Cell, look: Look) -> object:
    """Of the chains, and of all jobs that are alice's in them."""
    return [
        (
            look.chains.get(chain.chain_id),
            [_shown(look.job(number)) for number in (chain.first, chain.standby)],
        )
        for chain in cell.chains
    ]


def _shown(job: Job) -> Job:
    """Without what changes by itself: age counts up, and Slurm forgets what is over."""
    return NO_JOB if job.over else replace(job, priority=min(job.priority, 1))


def unchanged(_people: People, cell: Cell, look: Look) -> bool:
    return state(cell, look) == cell.before


@dataclass(frozen=True, kw_only=True)
class Trial:
    acts: tuple[Act, ...]
    """By the actor; the service looks twice after each."""
    happened: Check
    """What the actor wanted is so."""
    needs: Needs = Needs.PLAIN
    chains: int = 1
    untied: bool = False
    """The last one's id is not of the wrapped sbatch's form: it does not say whose it may be."""
    ready: tuple[tuple[Do, Check], ...] = ()
    """What others do before; each is waited for."""
    after: Do | None = None
    """What happens by itself afterwards."""
    awaited: Check = always
    """What comes in any case."""
    untouched: Check = unchanged
    """Nothing came of what the actor did."""
    speaks: bool = True
    """A refusal is told. Slurm takes a job that the service does not listen to."""
    audited: Check = always
    """The refusal is in the audit."""

    def found(self, people: People, cell: Cell, look: Look) -> str:
        """yes, no, or what is neither."""
        happened, untouched = self.happened(people, cell, look), self.untouched(people, cell, look)
        heard = all(said.ok for said in cell.said)
        if happened and (heard or not self.speaks):
            return "yes"
        if happened:
            return "yes, though it was refused"
        if not untouched:
            return "neither done nor left alone"
        if self.speaks and any(said.ok for said in cell.said):
            return "no, though nothing said so"
        return "no" if self.audited(people, cell, look) else "no, and it is not in the audit"


# What stands in the chain's row and in Slurm.


def is_paused(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains[cell.chain.chain_id]
    return row.state == "paused" and look.job(cell.chain.standby).held


def is_cancelled(_people: People, cell: Cell, look: Look) -> bool:
    return look.chains[cell.chain.chain_id].state == "cancelled"


def is_active(_people: People, cell: Cell, look: Look) -> bool:
    return look.chains[cell.chain.chain_id].state == "active"


def was_taken(_people: People, cell: Cell, look: Look) -> bool:
    """Whether one of the chains is not alice's any more, or has a job of another's."""
    rows = [look.chains[chain.chain_id] for chain in cell.chains]
    jobs = {job for row in rows for _, job in row.links}
    owners = {row.uid for row in rows}
    return owners != {pwd.getpwnam("alice").pw_uid} or not jobs.isdisjoint(cell.own_jobs)


def was_released(_people: People, cell: Cell, look: Look) -> bool:
    standbys = (look.job(chain.standby) for chain in cell.chains)
    return not all(job.held and job.reason == BY_ADMIN for job in standbys)


def stays_held(_people: People, cell: Cell, look: Look) -> bool:
    return not was_released(_people, cell, look)


def both(*checks: Check) -> Check:
    return lambda people, cell, look: all(check(people, cell, look) for check in checks)


def jobs_are_over(_people: People, cell: Cell, look: Look) -> bool:
    return look.job(cell.chain.first).over and look.job(cell.chain.standby).over


def is_registered(_people: People, cell: Cell, look: Look) -> bool:
    """By the actor's own word, as theirs."""
    row = look.chains.get(cell.own_id)
    words = ("registered", "registered again")
    said = any(look.has(cell.user, word, cell.own_id) for word in words)
    return row is not None and said and row.uid == pwd.getpwnam(cell.user).pw_uid


def has_no_row(_people: People, cell: Cell, look: Look) -> bool:
    return cell.own_id not in look.chains


def has_price(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains.get(cell.own_id or cell.chain.chain_id)
    return row is not None and row.price == PRICE


def has_policy(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains.get(cell.own_id or cell.chain.chain_id)
    return row is not None and row.policy == POLICY


# What others do before.


def alice_pauses(people: People, cell: Cell) -> None:
    said = people.api("alice", "POST", f"/chains/{cell.chain.chain_id}/pause")
    assert said.ok, said.text


def an_admin_holds(people: People, cell: Cell) -> None:
    """In Slurm, as root, on each of the cell's standbys."""
    people.testbed.run(["scontrol", "hold", ",".join(str(c.standby) for c in cell.chains)])


HELD_BY_ADMIN = ((alice_pauses, is_paused), (an_admin_holds, stays_held))
"""The first chain's standby is held by Mirage when the admin holds it, the second one's by nobody.
"""


# What they do.


def submit(people: People, cell: Cell, mark: str, *words: str, run: str = "sleep 3600") -> Said:
    """A job of the actor's with that mark."""
    argv = ["sbatch", "--parsable", "--mem=10M", "-o", "/dev/null", f"--comment=mirage:{mark}"]
    said = people.by_hand(cell.actor, *argv, *words, "--wrap", run)
    if said.ok:
        cell.own_jobs.append(int(said.text.partition(";")[0]))
    return said


def on_all(act: Act) -> Act:
    """The same on each of the cell's chains."""

    def acts(people: People, cell: Cell) -> Said:
        *others, last = [
            act(people, Cell(cell.expected, chains=[chain], own_jobs=cell.own_jobs))
            for chain in cell.chains
        ]
        cell.said += others
        return last

    return acts
