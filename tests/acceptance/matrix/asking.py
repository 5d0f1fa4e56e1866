"""Trials by asking the service: requests to its API, and the forms of its pages."""

from __future__ import annotations

from collections.abc import Callable

from tests.acceptance.matrix.looking import Look
from tests.acceptance.matrix.people import IN_SLURM, People, Said
from tests.acceptance.matrix.trials import (
    HELD_BY_ADMIN,
    PLANNED,
    POLICY,
    PRICE,
    Act,
    Cell,
    Check,
    Needs,
    Trial,
    alice_pauses,
    both,
    has_no_row,
    has_policy,
    has_price,
    is_cancelled,
    is_paused,
    is_registered,
    jobs_are_over,
    on_all,
    stays_held,
    submit,
    was_released,
    was_taken,
)


def _was_asked(word: str) -> Check:
    def check(_people: People, cell: Cell, look: Look) -> bool:
        return look.has(cell.user, f"asked: {word}", cell.chain.chain_id)

    return check


def _is_resumed(_people: People, cell: Cell, look: Look) -> bool:
    active = look.chains[cell.chain.chain_id].state == "active"
    return active and not look.job(cell.chain.standby).held


def _own_job(people: People, cell: Cell, mark: str) -> int:
    """Of whoever Slurm takes one from; else a number."""
    if cell.actor not in IN_SLURM:
        return 1
    said = submit(people, cell, mark, "--hold")
    assert said.ok, said.text
    return cell.own_jobs[-1]


def _see(people: People, cell: Cell) -> Said:
    parts = ("", "/decisions")
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
