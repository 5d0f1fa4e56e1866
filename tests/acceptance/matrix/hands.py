"""Trials by hand: comments of jobs, files of the chain's directory, and the plugin's programs."""

from __future__ import annotations

import pwd
import re
import sys

from tests.acceptance.matrix import trials
from tests.acceptance.matrix.looking import Look
from tests.acceptance.matrix.people import People, Said
from tests.acceptance.matrix.trials import (
    HELD_BY_ADMIN,
    POLICY,
    PRICE,
    Act,
    Cell,
    Check,
    Needs,
    Trial,
    both,
    on_all,
    submit,
)

_MARKERS = ("done", "stop", "paused")
_FAILS, _ENDS_ITSELF = "exit 1", "sleep 3; scancel $SLURM_JOB_ID; sleep 600"


# Comments.


def _fail_thrice(people: People, cell: Cell) -> Said:
    for link in (3, 4):
        cell.said.append(_marked_job(link, run=_FAILS)(people, cell))
    return _marked_job(5, run=_FAILS)(people, cell)


def _marked_job(link: int, *words: str, run: str = "sleep 3600") -> Act:
    """A job of the actor's with the mark of alice's chain."""
    return lambda people, cell: submit(
        people, cell, f"{cell.chain.chain_id}:{link}", *words, run=run
    )


def _mark_both(people: People, cell: Cell) -> Said:
    cell.said.append(_marked_job(1, "--hold")(people, cell))
    return _marked_job(2, "--hold")(people, cell)


def _mark_a_chain(people: People, cell: Cell) -> Said:
    return submit(people, cell, f"{cell.own_id}:1", "--hold")


def _own_jobs_are_over(_people: People, cell: Cell, look: Look) -> bool:
    return all(look.job(job).over for job in cell.own_jobs)


def _is_paused_by_its_links(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains[cell.chain.chain_id]
    return (row.state, row.actor) == ("paused", "mirage")


def _alice_cancels_in_slurm(people: People, cell: Cell) -> None:
    words = ["scancel", str(cell.chain.standby), str(cell.chain.first)]
    people.testbed.run(words, user="alice")


def _is_adopted(_people: People, cell: Cell, look: Look) -> bool:
    row = look.chains.get(cell.own_id)
    return row is not None and row.uid == pwd.getpwnam(cell.user).pw_uid


def _is_foreign(_people: People, cell: Cell, look: Look) -> bool:
    """Slurm took the job; the service says once that it did not listen."""
    foreign = bool(cell.own_jobs) and cell.actor != "alice"
    return not foreign or look.has("mirage", "foreign mark", cell.chain.chain_id)


COMMENT = {
    "pause": Trial(
        acts=(_fail_thrice,),
        happened=_is_paused_by_its_links,
        awaited=_own_jobs_are_over,
        speaks=False,
        audited=_is_foreign,
    ),
    "resume": Trial(
        ready=((_alice_cancels_in_slurm, both(trials.is_cancelled, trials.jobs_are_over)),),
        acts=(_marked_job(3, "--hold"),),
        happened=trials.is_active,
        speaks=False,
        audited=_is_foreign,
    ),
    "cancel": Trial(
        acts=(_marked_job(3, run=_ENDS_ITSELF),),
        happened=trials.is_cancelled,
        awaited=_own_jobs_are_over,
        speaks=False,
        audited=_is_foreign,
    ),
    "register": Trial(
        needs=Needs.NOTHING,
        acts=(_mark_a_chain,),
        happened=_is_adopted,
        untouched=trials.has_no_row,
    ),
    "take over": Trial(
        chains=2,
        untied=True,
        acts=(on_all(_mark_both),),
        happened=trials.was_taken,
        speaks=False,
        audited=_is_foreign,
    ),
    "release": Trial(
        chains=2,
        ready=HELD_BY_ADMIN,
        acts=(on_all(_marked_job(2, "--hold")),),
        happened=trials.was_released,
        untouched=trials.stays_held,
        speaks=False,
        audited=_is_foreign,
    ),
}


# Files.


def _do(script: str) -> Act:
    """A line of shell in which $DIR is the chain's directory."""
    return lambda people, cell: people.shell(
        cell.actor,
        script,
        DIR=str(people.directory(cell.chain.chain_id)),
        ID=cell.chain.chain_id,
        PLUGIN=str(people.root / "slurm_plugin"),
    )


def _ran(people: People, cell: Cell, link: int) -> bool:
    return (people.home("alice") / f"ran-{cell.chain.chain_id}-{link}").exists()


def _link_1_ends(people: People, cell: Cell) -> None:
    (people.home("alice") / f"end-{cell.chain.chain_id}-1").touch()


def _standby_is_over(_people: People, cell: Cell, look: Look) -> bool:
    return look.job(cell.chain.standby).over


def _link_2_ran(people: People, cell: Cell, _look: Look) -> bool:
    return _ran(people, cell, 2)


def _link_2_is_settled(people: People, cell: Cell, look: Look) -> bool:
    return _ran(people, cell, 2) or _standby_is_over(people, cell, look)


def _markers(people: People, cell: Cell) -> set[str]:
    directory = people.directory(cell.chain.chain_id)
    return {name for name in _MARKERS if (directory / name).exists()}


def _no_link_2(marker: str) -> Check:
    def check(people: People, cell: Cell, look: Look) -> bool:
        over = _standby_is_over(people, cell, look) and not _ran(people, cell, 2)
        return over and _markers(people, cell) == {marker}

    return check


def _goes_on(people: People, cell: Cell, look: Look) -> bool:
    """Nobody stopped it: its second link runs, and it is alice's."""
    stopped = bool(_markers(people, cell)) or not _ran(people, cell, 2)
    return not stopped and not trials.was_taken(people, cell, look)


def _alice_marks_it_paused(people: People, cell: Cell) -> None:
    for chain in cell.chains:
        words = ["touch", str(people.directory(chain.chain_id) / "paused")]
        people.testbed.run(words, user="alice")


def _seen(_people: People, cell: Cell, _look: Look) -> bool:
    return all(said.ok for said in cell.said)


_TAKE_THE_DIRECTORY = (
    "mkdir -p chains/$ID/ends && touch chains/$ID/stop; exec 2>&1; mv $DIR $DIR.away;"
    ' ln -sfn "$PWD/chains/$ID" $DIR; touch $DIR/stop; echo 1 >$DIR/jobs/2'
)

FILE = {
    "see": Trial(
        needs=Needs.CARRIED, acts=(_do("ls $DIR && cat $DIR/env $DIR/argv"),), happened=_seen
    ),
    "pause": Trial(
        needs=Needs.CARRIED,
        acts=(_do("touch $DIR/paused"),),
        after=_link_1_ends,
        awaited=_link_2_is_settled,
        happened=_no_link_2("paused"),
        untouched=_goes_on,
    ),
    "resume": Trial(
        needs=Needs.CARRIED,
        ready=((_alice_marks_it_paused, trials.always),),
        acts=(_do("rm $DIR/paused"),),
        after=_link_1_ends,
        awaited=_link_2_is_settled,
        happened=_link_2_ran,
        untouched=_no_link_2("paused"),
    ),
    "cancel": Trial(
        needs=Needs.CARRIED,
        acts=(_do("touch $DIR/done"),),
        after=_link_1_ends,
        awaited=_link_2_is_settled,
        happened=_no_link_2("done"),
        untouched=_goes_on,
    ),
    "take over": Trial(
        needs=Needs.CARRIED,
        acts=(_do(_TAKE_THE_DIRECTORY),),
        after=_link_1_ends,
        awaited=_link_2_is_settled,
        happened=trials.was_taken,
        untouched=_goes_on,
    ),
    "release": Trial(
        needs=Needs.CARRIED,
        chains=2,
        ready=HELD_BY_ADMIN,
        acts=(on_all(_do("touch $DIR/paused")), on_all(_do("rm $DIR/paused"))),
        happened=trials.was_released,
        untouched=trials.stays_held,
        speaks=False,
    ),
}


# The plugin.

_LINK = "$PLUGIN/mirage-link"

# The plugin's own registration, for a chain that the caller names.
_REGISTRATION = """
import os, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
from mirage_slurm.client.request import Unreachable
from mirage_slurm.wrapper import registration
asked = dict(word.split("=") for word in sys.argv[4:])
price = float(asked["price"]) if "price" in asked else None
settings = SimpleNamespace(
    links=3, policy=asked.get("policy"), overlap_price=price, total=None, max_overlap_s=0,
    max_overlap=0, presubmit="next", style="wait", mode="standby", min_runtime=0, asked=(),
    total_s=0, min_runtime_s=0,
)
try:
    registration.register_chain(sys.argv[2], int(sys.argv[3]), settings, dict(os.environ))
except Unreachable as error:
    sys.exit(str(error))
"""


def _wrapped(*words: str) -> Act:
    """The wrapped sbatch, by the actor: a chain of their own."""

    def act(people: People, cell: Cell) -> Said:
        program = str(people.root / "slurm_plugin" / "sbatch")
        argv = [program, "--mirage-chain=3", "--time=30", "-n1", "--mem=10M", "-o", "/dev/null"]
        own = [word.format(cell.chain.chain_id) if "{}" in word else word for word in words]
        said = people.by_hand(cell.actor, *argv, "--hold", *own, "job.sh")
        found = re.search(r"^mirage: chain (\w+): 3 links$", said.text, re.MULTILINE)
        cell.own_id = found[1] if found else ""
        return Said(said.ok and bool(found), said.text)

    return act


def _registration(people: People, cell: Cell, *asked: str) -> Said:
    chain, plugin = cell.chain, str(people.root / "slurm_plugin")
    job = str(cell.own_jobs[-1] if cell.own_jobs else chain.first)
    argv = (sys.executable, "-c", _REGISTRATION, plugin, chain.chain_id, job, *asked)
    return people.by_hand(cell.actor, "/usr/bin/python3", *argv[1:])


def _register_for_alice(*asked: str) -> Act:
    """Of alice: what she asks for is a chain's from its beginning."""

    def act(people: People, cell: Cell) -> Said:
        if cell.actor == "alice":
            return _wrapped(f"--mirage-overlap-price={PRICE}", f"--mirage-policy={POLICY}")(
                people, cell
            )
        return _registration(people, cell, *asked)

    return act


def _take_over(people: People, cell: Cell) -> Said:
    """A chain of the actor's own with alice's mark in its comment, and a word to the service."""
    _wrapped("--comment=mirage:{}:2")(people, cell)
    _marked_job(1, "--hold")(people, cell)
    return _registration(people, cell)


def _was_refused(_people: People, cell: Cell, _look: Look) -> bool:
    return not cell.said[-1].ok


PLUGIN = {
    "see": Trial(needs=Needs.CARRIED, acts=(_do(f"{_LINK} status $DIR"),), happened=_seen),
    "resume": Trial(
        needs=Needs.CARRIED,
        ready=(
            (_alice_marks_it_paused, trials.always),
            (_link_1_ends, _standby_is_over),
        ),
        acts=(_do(f"{_LINK} resume $DIR"),),
        happened=_link_2_ran,
        untouched=_no_link_2("paused"),
    ),
    "cancel": Trial(
        needs=Needs.CARRIED,
        acts=(_do(f"{_LINK} stop $DIR"),),
        after=_link_1_ends,
        awaited=_link_2_is_settled,
        happened=_no_link_2("stop"),
        untouched=_goes_on,
    ),
    "register": Trial(
        needs=Needs.NOTHING,
        acts=(_wrapped(),),
        happened=trials.is_registered,
        untouched=trials.has_no_row,
    ),
    "take over": Trial(
        chains=2,
        untied=True,
        acts=(on_all(_take_over),),
        happened=trials.was_taken,
        untouched=both(trials.unchanged, _was_refused),
        speaks=False,
    ),
    "price": Trial(acts=(_register_for_alice(f"price={PRICE}"),), happened=trials.has_price),
    "policy": Trial(acts=(_register_for_alice(f"policy={POLICY}"),), happened=trials.has_policy),
    "release": Trial(
        needs=Needs.CARRIED,
        chains=2,
        ready=(*HELD_BY_ADMIN, (_alice_marks_it_paused, trials.always)),
        acts=(on_all(_do(f"{_LINK} resume $DIR")),),
        happened=trials.was_released,
        untouched=trials.stays_held,
        speaks=False,
    ),
}
