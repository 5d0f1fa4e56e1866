"""Tries every cell for real: all of one way beside each other, so that a look serves them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tests.acceptance.matrix import asking, expected, hands, trials
from tests.acceptance.matrix.expected import NO, NONE, YES, Expected
from tests.acceptance.matrix.looking import Look, look, look_twice_more
from tests.acceptance.matrix.people import IN_SLURM, People
from tests.acceptance.matrix.trials import Cell, Chain, Check, Needs, Trial
from tests.support.slurm_testbed import TestbedFailure

TRIALS: dict[str, dict[str, Trial]] = {
    "API": asking.API,
    "page": asking.PAGE,
    "comment": hands.COMMENT,
    "file": hands.FILE,
    "plugin": hands.PLUGIN,
}
PATIENCE_S = 240
"""For what must come: on a busy machine Slurm starts a hundred jobs slowly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    expected: Expected
    found: str
    said: str = ""
    """What the actor was told last."""

    @property
    def differs(self) -> bool:
        return self.found != self.expected.is_to_be

    def __str__(self) -> str:
        cell = self.expected
        told = " ".join(self.said.split())[:300]
        return (
            f"{cell.way}: {cell.actor}, {cell.action}: {self.found}, not {cell.is_to_be}"
            f" ({cell.why}); told: {told}"
        )


def of_way(people: People, way: str) -> list[Found]:
    wanted = [cell for cell in expected.cells() if cell.way == way]
    tried = iter(_tried(people, [cell for cell in wanted if cell.is_to_be != NONE]))
    without = (
        Found(expected=cell, found=NONE) if cell.is_to_be == NONE else None for cell in wanted
    )
    return [found if found is not None else next(tried) for found in without]


def _tried(people: People, wanted: list[Expected]) -> list[Found]:
    cells = [(Cell(each), TRIALS[each.way][each.action]) for each in wanted]
    try:
        _give_chains(people, cells)
        for stage in range(max(len(trial.ready) for _, trial in cells)):
            _make_ready(people, cells, stage)
        now = look(people)
        for cell, _ in cells:
            cell.before = trials.state(cell, now)
        _act(people, cells)
        now = _settled(people, cells)
        return [
            Found(
                expected=cell.expected,
                found=trial.found(people, cell, now),
                said=cell.said[-1].text,
            )
            for cell, trial in cells
        ]
    finally:
        people.testbed.cancel_all()


_Cells = list[tuple[Cell, Trial]]


def _act(people: People, cells: _Cells) -> None:
    for step in range(max(len(trial.acts) for _, trial in cells)):
        for cell, trial in cells:
            if step < len(trial.acts):
                cell.said.append(trial.acts[step](people, cell))
        look_twice_more(people)
    for cell, trial in _of_its_own_chain(cells):
        if trial.after is not None:
            trial.after(people, cell)


def _settled(people: People, cells: _Cells) -> Look:
    """Once all has come that must come, and the service has looked twice since."""
    wanted = [(cell, trial.awaited) for cell, trial in cells]
    wanted += [(c, trial.happened) for c, trial in cells if c.expected.is_to_be == YES]
    with suppress(TestbedFailure):  # what does not come is a cell that differs
        _wait(people, wanted, PATIENCE_S, "what was asked")
    look_twice_more(people)
    return look(people)


def _wait(people: People, wanted: list[tuple[Cell, Check]], patience_s: float, what: str) -> None:
    def come() -> bool:
        now = look(people)
        wanted[:] = [(cell, check) for cell, check in wanted if not check(people, cell, now)]
        return not wanted

    people.testbed.wait_until(come, patience_s, what)


def _make_ready(people: People, cells: _Cells, stage: int) -> None:
    awaited = []
    for cell, trial in _of_its_own_chain(cells):
        if stage < len(trial.ready):
            do, check = trial.ready[stage]
            do(people, cell)
            awaited.append((cell, check))
    _wait(people, awaited, PATIENCE_S, "what others do before")


def _of_its_own_chain(cells: _Cells) -> Iterator[tuple[Cell, Trial]]:
    """One cell of each chain: what is done to the chain by others is done once."""
    seen: set[str] = set()
    for cell, trial in cells:
        first = cell.chains[0].chain_id if cell.chains else ""
        if first not in seen:
            yield cell, trial
            seen |= {first} if first else set()


# The chains.


def _give_chains(people: People, cells: _Cells) -> None:
    """One for each cell; of those with a directory those who may do nothing share one."""
    made: list[Chain] = []
    plain = [(cell, trial) for cell, trial in cells if trial.needs is Needs.PLAIN]
    ids = people.new_ids("alice", sum(trial.chains for _, trial in plain)) if plain else []
    wanted = iter(ids)
    for cell, trial in plain:
        cell.chains = [Chain(next(wanted), 0, 0) for _ in range(trial.chains)]
        if trial.untied:
            cell.chains[-1].chain_id = cell.chains[-1].chain_id[:-1]
        made += cell.chains
    _submit_plain(people, [chain.chain_id for chain in made])
    shared: dict[str, list[Chain]] = {}
    for cell, trial in cells:
        if trial.needs is Needs.CARRIED:
            alone = cell.expected.is_to_be != NO or cell.actor == "alice"
            key = f"{cell.expected.action} {cell.actor if alone else ''}"
            if key not in shared:
                shared[key] = [_carried(people) for _ in range(trial.chains)]
                made += shared[key]
            cell.chains = shared[key]
        elif trial.needs is Needs.NOTHING and cell.expected.way != "plugin":
            maker = cell.actor if cell.actor in IN_SLURM else "alice"
            (cell.own_id,) = people.new_ids(maker, 1)
    _stand(people, made)


def _submit_plain(people: People, ids: list[str]) -> None:
    """Jobs with marks, all by one shell: a hundred at 30 ms each.

    They run beside each other, and say so: of links that take turns only one would count as begun.
    """
    script = (
        'for id in "$@"; do c="mirage:style=concurrent mirage:$id"; j=$(sbatch --parsable --mem=10M'
        ' -o /dev/null --comment="$c:1" --wrap "sleep 3600") && sbatch -Q --mem=10M -o /dev/null'
        ' -d afterany:$j --comment="$c:2" --wrap "sleep 3600" || exit 1; done'
    )
    people.run(["sh", "-c", script, "sh", *ids], user="alice")


def _carried(people: People) -> Chain:
    return Chain(people.submit_chain("alice", "--mem=10M"), 0, 0)


def _stand(people: People, chains: list[Chain]) -> None:
    """Until each has a link that runs, a standby behind it, and the service knows both."""

    def stand() -> bool:
        now = look(people)
        return all(_stands(now, chain) for chain in chains)

    people.testbed.wait_until(stand, PATIENCE_S, "the chains")


def _stands(now: Look, chain: Chain) -> bool:
    row = now.chains.get(chain.chain_id)
    if row is None or len(row.links) != 2:
        return False
    chain.first, chain.standby = (job for _, job in row.links)
    waits = now.job(chain.standby).reason == "Dependency"
    return now.job(chain.first).state == "RUNNING" and waits


def of_all(people: People, ways: Sequence[str] | None, say: Callable[[str], None]) -> list[Found]:
    """All ways unless some are named, one after the other; `say` how long each took."""
    found = []
    for way in ways or TRIALS:
        since = time.monotonic()
        found += of_way(people, way)
        say(f"{way}: {time.monotonic() - since:.0f} s")
    return found
