"""Marks can be copied and chains registered by whoever saw one: a chain stays its owner's."""

from hashlib import sha256

import pytest

from mirage.chains.lifecycle import Registration, register_chain, request_state
from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState, Mark
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import NotAllowed
from mirage.policies.rules.lead_rules import Reactive
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from tests.support.provision.slurm_jobs import (
    ALICE,
    CHAIN,
    NOW,
    WrittenCluster,
    chain,
    ended_record,
    events,
    job,
    links,
    record,
    running,
    sync,
)

MALLORY = 666


@pytest.mark.parametrize("registered", [False, True], ids=["unregistered", "registered by her"])
def test_a_copied_mark_does_not_make_the_copier_the_owner(
    lab_store: Store, *, registered: bool
) -> None:
    """The service was down when alice submitted; mallory read the mark in the queue."""
    if registered:
        with lab_store.begin() as tx:
            new = Registration(chain_id=CHAIN, links=5, job_id=JobId(11))
            register_chain(tx, 1, new, uid=MALLORY, user="mallory", now=NOW)
    sync(
        lab_store, job(1, uid=MALLORY, user="mallory", job_id=JobId(99), submit=NOW - 5), running(1)
    )
    assert (chain(lab_store).uid, links(lab_store)[1].job_id) == (ALICE, 11)


def test_a_mark_on_a_job_older_than_the_chain_gives_nothing(lab_store: Store) -> None:
    """mallory rewrites the comment of a job he had before alice submitted."""
    chain_id = ChainId(_id_made_at(NOW))
    mine = job(1, uid=MALLORY, job_id=JobId(5), submit=NOW - 10, comment=str(Mark(chain_id, 1)))
    hers = job(1, submit=NOW + 1, comment=str(Mark(chain_id, 1)))
    sync(lab_store, mine, hers, now=NOW + 60)
    assert chain(lab_store, chain_id).uid == ALICE


@pytest.mark.parametrize(
    ("copied_id", "copied_submit"),
    [(5, NOW + 20), (9, NOW - 1)],
    ids=["an old job, requeued", "a job from a second before"],
)
def test_who_marks_a_job_of_his_does_not_come_first(
    lab_store: Store, copied_id: int, copied_submit: int
) -> None:
    """Nobody registered the chain. Lower numbers and clocks that may differ help no copier."""
    mark = str(Mark(ChainId(_id_made_at(NOW)), 1))
    copied = job(1, uid=MALLORY, job_id=JobId(copied_id), submit=copied_submit, comment=mark)
    sync(lab_store, copied, job(1, submit=NOW + 1, comment=mark), now=NOW + 60)
    assert chain(lab_store, ChainId(_id_made_at(NOW))).uid == ALICE


def told(store: Store, *, uid: int = ALICE, job_id: int = 11) -> None:
    with store.begin() as tx:
        new = Registration(chain_id=CHAIN, links=5, job_id=JobId(job_id), policy="average")
        user = "alice" if uid == ALICE else "mallory"
        register_chain(tx, 1, new, uid=uid, user=user, now=NOW)


def ticked(store: Store, *jobs: Job, now: int = NOW + 60) -> None:
    """As the service does it."""
    settings = DecisionSettings(get_policy=lambda _: Reactive(), default_policy="reactive")
    Worker(store, WrittenCluster(*jobs, now=now), 1, settings=settings).run_tick()


@pytest.mark.parametrize("state", [ChainState.ACTIVE, ChainState.PAUSED, ChainState.CANCELLED])
@pytest.mark.parametrize("shown", [False, True], ids=["hers not seen yet", "hers seen"])
@pytest.mark.parametrize(("job_id", "submit"), [(5, NOW - 9000), (5, NOW + 9), (10, NOW - 101)])
def test_no_mark_on_a_foreign_job_takes_a_registered_chain(
    lab_store: Store, job_id: int, submit: int, state: ChainState, *, shown: bool
) -> None:
    """Whatever mallory's comment says, of whatever job: also while alice's was never seen."""
    told(lab_store)
    if state is not ChainState.ACTIVE:
        with lab_store.begin() as tx:
            request_state(tx, 1, chains.get_chain(tx, 1, CHAIN), state, now=NOW, actor="alice")
    copied = job(1, uid=MALLORY, user="mallory", job_id=JobId(job_id), submit=submit)
    before = chain(lab_store)
    ticked(lab_store, copied, *([running(1)] if shown else []))
    ticked(lab_store, copied, *([running(1)] if shown else []), now=NOW + 120)
    assert chain(lab_store) == before
    assert [link.job_id for link in links(lab_store).values()] == ([11] if shown else [])
    assert events(lab_store).count("foreign mark") == 1
    assert "adopted" not in events(lab_store)


@pytest.mark.parametrize("marked", ["", str(Mark(ChainId("otherchain"), 1))])
def test_a_registration_that_names_an_own_job_without_the_mark_falls(
    lab_store: Store, marked: str
) -> None:
    """mallory saw the mark of alice's job in the queue and was the first to register it."""
    told(lab_store, uid=MALLORY, job_id=5)
    ticked(lab_store, running(1), job(1, uid=MALLORY, job_id=JobId(5), comment=marked))
    found = chain(lab_store)
    assert (found.uid, found.policy, links(lab_store)[1].job_id) == (ALICE, None, 11)


def test_a_registration_that_names_a_foreign_job_falls(lab_store: Store) -> None:
    told(lab_store, uid=MALLORY, job_id=11)
    ticked(lab_store, running(1))
    assert (chain(lab_store).uid, links(lab_store)[1].job_id) == (ALICE, 11)
    told(lab_store)  # and alice's own is taken
    assert chain(lab_store).policy == "average"


def test_a_registration_whose_job_only_accounting_shows_stands(lab_store: Store) -> None:
    """It had ended before the first look, and accounting keeps no comments."""
    told(lab_store)
    over = ended_record(1, JobState.COMPLETED, NOW - 60, NOW, comment="")
    sync(lab_store, over, record(1, uid=MALLORY, job_id=JobId(5)), accounting=True)
    assert chain(lab_store).uid == ALICE


def test_an_adopted_chain_goes_to_nobody_else(lab_store: Store) -> None:
    sync(lab_store, running(1))
    sync(lab_store, job(1, uid=MALLORY, job_id=JobId(5), submit=NOW - 200), now=NOW + 60)
    assert (chain(lab_store).uid, links(lab_store)[1].job_id) == (ALICE, 11)
    assert events(lab_store) == ["adopted", "foreign mark"]


def _id_made_at(second: int) -> str:
    """Of a chain of alice's."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    digits = [alphabet[second >> shift & 31] for shift in range(30, -1, -5)]
    made = "".join(digits) + "x" * 9
    tied = int.from_bytes(sha256(f"{made}:{ALICE}".encode()).digest()[:3], "big") >> 4
    return made + "".join(alphabet[tied >> shift & 31] for shift in (15, 10, 5, 0))


def test_an_id_is_good_for_the_user_alone_for_whom_it_was_made(lab_store: Store) -> None:
    """mallory reads the mark in the queue, marks a job of his so, and registers that at once."""
    chain_id = ChainId(_id_made_at(NOW))
    mark = str(Mark(chain_id, 1))
    his = job(1, uid=MALLORY, user="mallory", job_id=JobId(5), submit=NOW - 50, comment=mark)
    hers = job(1, JobState.RUNNING, start=NOW, submit=NOW - 10, comment=mark)
    new = Registration(chain_id=chain_id, links=5, job_id=JobId(5))
    with lab_store.begin() as tx, pytest.raises(NotAllowed):
        register_chain(tx, 1, new, uid=MALLORY, user="mallory", now=NOW)
    ticked(lab_store, his)
    ticked(lab_store, his, hers)
    found = chain(lab_store, chain_id)
    assert (found.uid, links(lab_store, chain_id)[1].job_id) == (ALICE, 11)
    with lab_store.begin() as tx:
        hers_too = Registration(chain_id=chain_id, links=5, job_id=JobId(11), policy="average")
        register_chain(tx, 1, hers_too, uid=ALICE, user="alice", now=NOW)
    assert chain(lab_store, chain_id).policy == "average"
