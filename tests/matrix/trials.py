"""How a cell is tried: what it needs, what the actor does, and how one sees what came of it."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tests.matrix.expected import Expected
from tests.matrix.looking import BY_ADMIN, NO_JOB, Job, Look
from tests.matrix.people import IN_SLURM, USERS, People, Said

PRICE, POLICY = 7.5, "at-once"
PLANNED = 7
"""Links of a chain that an actor registers: adopted ones have no number."""
FORGED = {"no credential", "stranger", "alice elsewhere"}
"""Whose requests nobody vouches for."""


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


def _was_asked(word: str) -> Check:
    def check(_people: People, cell: Cell, look: Look) -> bool:
        return look.has(cell.user, f"asked: {word}", cell.chain.chain_id)

    return check


def both(*checks: Check) -> Check:
    return lambda people, cell, look: all(check(people, cell, look) for check in checks)


def _is_resumed(_people: People, cell: Cell, look: Look) -> bool:
    active = look.chains[cell.chain.chain_id].state == "active"
    return active and not look.job(cell.chain.standby).held


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


# The API, and pages.


def submit(people: People, cell: Cell, mark: str, *words: str, run: str = "sleep 3600") -> Said:
    """A job of the actor's with that mark."""
    argv = ["sbatch", "--parsable", "--mem=10M", "-o", "/dev/null", f"--comment=mirage:{mark}"]
    said = people.by_hand(cell.actor, *argv, *words, "--wrap", run)
    if said.ok:
        cell.own_jobs.append(int(said.text.partition(";")[0]))
    return said


def _own_job(people: People, cell: Cell, mark: str) -> int:
    """Of whoever Slurm takes one from; else a number."""
    if cell.actor not in IN_SLURM:
        return 1
    said = submit(people, cell, mark, "--hold")
    assert said.ok, said.text
    return cell.own_jobs[-1]


def _see(people: People, cell: Cell) -> Said:
    parts = ("", "/timeline", "/decisions")
    paths = [f"/chains/{cell.chain.chain_id}{part}" for part in parts]
    said = [people.api(cell.actor, "GET", path) for path in paths]
    cell.said += said[:-1]
    return said[-1]


def _ask(verb: str) -> Act:
    return lambda people, cell: people.api(
        cell.actor, "POST", f"/chains/{cell.chain.chain_id}/{verb}"
    )


def _register(people: People, cell: Cell) -> Said:
    body = {"chain_id": cell.own_id, "links": PLANNED}
    body["job_id"] = _own_job(people, cell, f"{cell.own_id}:1")
    return people.api(cell.actor, "POST", "/chains", body)


def _take_over(people: People, cell: Cell) -> Said:
    body = {"chain_id": cell.chain.chain_id, "links": PLANNED}
    body["job_id"] = _own_job(people, cell, f"{cell.chain.chain_id}:1")
    return people.api(cell.actor, "POST", "/chains", body)


def _register_again(**more: object) -> Act:
    def act(people: People, cell: Cell) -> Said:
        chain = cell.chain
        body = {"chain_id": chain.chain_id, "job_id": chain.first, "links": PLANNED} | more
        return people.api(cell.actor, "POST", "/chains", body)

    return act


def has_price(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains.get(cell.own_id or cell.chain.chain_id)
    return row is not None and row.price == PRICE


def has_policy(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains.get(cell.own_id or cell.chain.chain_id)
    return row is not None and row.policy == POLICY


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


def _refusal_is_told(path: str) -> Check:
    """Of whoever showed a credential: a browser's unknown cookie is none."""

    def check(_people: People, cell: Cell, look: Look) -> bool:
        if cell.actor == "no credential" or (cell.actor, cell.expected.way) == ("stranger", "page"):
            return True
        chain_id = cell.chains[0].chain_id if cell.chains else cell.own_id
        names = {cell.user} if cell.actor != "stranger" else {"nobody", "alice"}
        return any(
            entry.actor in names
            and entry.event.startswith("refused: ")
            and str(entry.detail["path"]).endswith(path.format(chain_id))
            for entry in look.audit
        )

    return check


def _steering(act: Callable[[str], Act]) -> dict[str, Trial]:
    """Asking by the API and by the forms is one thing: a state and an entry of the audit."""
    return {
        "pause": Trial(
            acts=(act("pause"),),
            happened=both(is_paused, _was_asked("paused")),
            audited=_refusal_is_told("/chains/{}/pause"),
        ),
        "resume": Trial(
            ready=((alice_pauses, is_paused),),
            acts=(act("resume"),),
            happened=both(_is_resumed, _was_asked("resumed")),
            audited=_refusal_is_told("/chains/{}/resume"),
        ),
        "cancel": Trial(
            acts=(act("cancel"),),
            happened=both(is_cancelled, jobs_are_over, _was_asked("cancelled")),
            audited=_refusal_is_told("/chains/{}/cancel"),
        ),
        "release": Trial(
            chains=2,
            ready=HELD_BY_ADMIN,
            acts=(on_all(act("pause")), on_all(act("resume"))),
            happened=was_released,
            untouched=stays_held,
            speaks=False,
        ),
    }


def _was_seen(_people: People, cell: Cell, _look: Look) -> bool:
    return all(said.ok for said in cell.said)


API = {
    "see": Trial(
        acts=(_see,), happened=_was_seen, audited=_refusal_is_told("/chains/{}/decisions")
    ),
    **_steering(_ask),
    "register": Trial(
        needs=Needs.NOTHING,
        acts=(_register,),
        happened=is_registered,
        untouched=has_no_row,
        audited=_refusal_is_told("/chains"),
    ),
    "take over": Trial(acts=(_take_over,), happened=was_taken, audited=_refusal_is_told("/chains")),
    "price": Trial(
        acts=(_register_again(overlap_price=PRICE),),
        happened=has_price,
        audited=_refusal_is_told("/chains"),
    ),
    "policy": Trial(
        acts=(_register_again(policy=POLICY),),
        happened=has_policy,
        audited=_refusal_is_told("/chains"),
    ),
}


def _look_at(people: People, cell: Cell) -> Said:
    """A page of somebody else's may be shown: of the error, or to log in."""
    said = people.page(cell.actor, "GET", f"/chains/{cell.chain.chain_id}")
    return Said(said.ok and f"Chain {cell.chain.chain_id}" in said.text, said.text)


def _send_form(verb: str) -> Act:
    """The form of the chain's page, whether the page that the actor is shown has it or not."""

    def act(people: People, cell: Cell) -> Said:
        path = f"/chains/{cell.chain.chain_id}"
        if cell.expected.is_to_be == "yes":
            page = people.page(cell.actor, "GET", path).text
            assert f'action="{path}/{verb}"' in page, page
        return people.page(cell.actor, "POST", f"{path}/{verb}")

    return act


PAGE = {
    "see": Trial(acts=(_look_at,), happened=_was_seen, audited=_refusal_is_told("/chains/{}")),
    **_steering(_send_form),
}
