"""A call that asks for no chain is the real sbatch, whatever the service is like.

Each invocation is made twice in turn, by the real sbatch and by the wrapped one, while no partition
takes work: what slurmctld then keeps of both jobs is compared. The service's state goes round from
one invocation to the next; the first twelve meet all four. None is ever asked: the two services
that are played here count. Then the same words ask for a chain, beside a service that is up, down
or talks nonsense in turn, and beside a slow one twice: there each call costs two seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.slurm_plugin.conformance import SLOW_S, STATES, Answer, Babbler, Side, same_job
from tests.support.slurm_plugin.invocations import ACCEPTED, REFUSED, TELLS, Invocation, drawn

pytestmark = pytest.mark.slurm

WRITTEN = [*ACCEPTED, *REFUSED, *TELLS]
DRAWN = drawn(60, seed=22058)
IN_ALL_STATES = 12
CALLS: list[tuple[Invocation, str]] = [
    *itertools.product(WRITTEN[:IN_ALL_STATES], STATES),
    *zip([*WRITTEN[IN_ALL_STATES:], *DRAWN], itertools.cycle(STATES), strict=False),
]


@dataclass(frozen=True, slots=True)
class Pair:
    real: Answer
    mine: Answer


@dataclass(frozen=True, slots=True)
class Made:
    """All calls and what Slurm then knows of the jobs."""

    side: Side
    pairs: list[Pair]
    shown: dict[int, dict[str, str]]


@pytest.fixture(scope="module")
def plain(side: Side, troubled: tuple[Babbler, Babbler]) -> Iterator[Made]:
    side.shut()
    calls = [
        side.call(made, wrapped=wrapped, state=state)
        for made, state in CALLS
        for wrapped in (False, True)
    ]
    answers = side.run(calls)
    pairs = [Pair(*two) for two in zip(answers[::2], answers[1::2], strict=True)]
    yield Made(side, pairs, side.read_jobs())
    side.testbed.cancel_all()
    side.shut(shut=False)


@pytest.mark.parametrize(
    "index", range(len(CALLS)), ids=[f"{made} [{state}]" for made, state in CALLS]
)
def test_a_plain_call_is_the_real_sbatch(plain: Made, index: int) -> None:
    pair = plain.pairs[index]
    assert pair.mine.get_output() == pair.real.get_output()
    assert len(pair.mine.own_lines()) == CALLS[index][0].tells_the_script_of_us()
    assert len(pair.mine.jobs) == len(pair.real.jobs)
    for mine, real in zip(pair.mine.jobs, pair.real.jobs, strict=True):
        assert same_job(mine, plain.shown[mine]) == same_job(real, plain.shown[real])
        for name in ("script", "environment"):
            assert plain.side.stored(mine, name) == plain.side.stored(real, name)


def test_a_plain_call_asks_no_service(plain: Made, troubled: tuple[Babbler, Babbler]) -> None:
    assert [server.requests for server in troubled] == [0, 0]
    known = plain.side.scene.api("/api/v1/chains")["items"]  # a mark in a comment is found in time
    assert [chain for chain in known if chain["links_planned"] is not None] == []
    assert not (plain.side.home / "state").exists()


# The same words, asking for a chain.

CHAINED = [made for made in [*WRITTEN, *DRAWN] if "MIRAGE_DISABLE" not in made.env]
SLOW = {0, 29}
"""Of these calls: each costs the two seconds that the wrapper waits."""
IN_TURN = itertools.cycle(("up", "down", "garbage"))
CHAIN_STATES = ["slow" if i in SLOW else next(IN_TURN) for i in range(len(CHAINED))]
ITS_OWN = {"Comment", "Command"}
"""Of a link: its mark, and the carrier."""


@pytest.fixture(scope="module")
def chained(plain: Made) -> Made:
    side = plain.side
    calls = [
        side.call(made.with_words("--mirage-chain=2"), wrapped=True, state=state)
        for made, state in zip(CHAINED, CHAIN_STATES, strict=True)
    ]
    answers = side.run(calls)
    real = {made: pair.real for (made, _), pair in zip(CALLS, plain.pairs, strict=True)}
    pairs = [Pair(real[made], mine) for made, mine in zip(CHAINED, answers, strict=True)]
    return Made(side, pairs, side.read_jobs())


def cannot_be_a_chain(made: Invocation) -> bool:
    arrays = "--array=1,3" in made.words or made.words[:1] in (("-a",), ("--array=1-3%1",))
    return arrays or "SBATCH_ARRAY_INX" in made.env or "--uid=bob" in made.words


@pytest.mark.parametrize(
    "index",
    range(len(CHAINED)),
    ids=[f"{made} [{state}]" for made, state in zip(CHAINED, CHAIN_STATES, strict=True)],
)
def test_a_chain_is_answered_as_its_first_job_is(chained: Made, index: int) -> None:
    made, pair = CHAINED[index], chained.pairs[index]
    if cannot_be_a_chain(made):
        assert (pair.mine.code, pair.mine.stdout, pair.mine.jobs) == (1, "", ())
        assert pair.mine.stderr.startswith("sbatch: error: mirage: a job ")
        return
    code, stdout, stderr = pair.real.get_output()
    assert pair.mine.get_output()[:2] == (code, stdout)
    if "-v" not in made.words and "SBATCH_DEBUG" not in made.env:  # which tell of the comment
        assert pair.mine.get_output()[2] == stderr
    assert len(pair.mine.own_lines()) <= 1 + made.tells_the_script_of_us()
    assert len(pair.mine.jobs) == len(pair.real.jobs)
    for mine, real in zip(pair.mine.jobs, pair.real.jobs, strict=True):
        same_link(chained, mine, real)


def same_link(chained: Made, mine: int, real: int) -> None:
    link, job = chained.shown[mine], chained.shown[real]
    assert same_job(mine, link, ITS_OWN) == same_job(real, job, ITS_OWN)
    assert link["Comment"].startswith(job.get("Comment", "").strip())
    assert chained.side.environment(mine) == chained.side.environment(real)
    if link.get("HetJobOffset", "0") == "0":  # the other components have no script of the user's
        own, carried = (chained.side.stored(number, "script") for number in (real, mine))
        assert own
        assert carried
        assert carried.endswith(own)


def test_a_chain_is_known_to_the_service_that_was_up(chained: Made) -> None:
    answer = chained.side.scene.api("/api/v1/chains?limit=200")
    known = {chain["chain_id"] for chain in answer["items"]}
    told = {
        chained.shown[pair.mine.jobs[0]]["Comment"].split("mirage:")[-1].partition(":")[0]
        for pair, state in zip(chained.pairs, CHAIN_STATES, strict=True)
        if state == "up" and pair.mine.code == 0 and pair.mine.jobs
    }
    assert len(told) > 10
    assert told <= known


def test_the_service_is_told_what_was_asked(chained: Made) -> None:
    asked = ["--mirage-never-overlap", "--mirage-presubmit=all", "--mirage-total=1-0"]
    asked += ["--mirage-style=serve", "--mirage-overlap-price=0.25", "--mirage-policy=average"]
    made = Invocation(("--mirage-chain=3", *asked, "job.sh"), None)
    (answer,) = chained.side.run([chained.side.call(made, wrapped=True, state="up")])
    chain = chained.side.chain_of(answer.jobs[0]).name
    told = f"mirage: chain {chain}: 3 links\n"
    assert (answer.code, answer.stderr, len(answer.jobs)) == (0, told, 3)
    shown = chained.side.scene.api(f"/api/v1/chains/{chain}")
    names = ("links_planned", "total_s", "max_overlap_s", "presubmit", "style", "mode")
    assert [shown[name] for name in names] == [3, 86400, 0, "all", "serve", "standby"]
    assert (shown["overlap_price"], shown["policy"]) == (0.25, "average")
    first, second, third = answer.jobs
    dependency = chained.side.read_jobs()[third]["Dependency"]
    assert set(dependency.split(",")) == {f"afterany:{job}(unfulfilled)" for job in (first, second)}


def test_a_chain_waits_for_no_slow_service(chained: Made) -> None:
    """Its own limit is two seconds; how near it comes, and at what CPU time, is told by
    `benchmarks.wrapper`."""
    assert max(pair.mine.seconds - pair.real.seconds for pair in chained.pairs) < SLOW_S / 2
