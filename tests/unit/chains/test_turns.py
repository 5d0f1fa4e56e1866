"""A link of a sequential chain that has its nodes already is a standby until its turn comes."""

from dataclasses import replace

import pytest

from mirage.chains import explanations
from mirage.chains.notices.notices import build_situation, find_news
from mirage.database.chains import chains
from mirage.database.events.outbox import Situation
from mirage.database.schema.engine import Store
from mirage.domain import script_turns
from mirage.domain.chain import Chain, ChainState, Link, LinkState, Style
from mirage.domain.job import Job, JobId, JobState
from tests.support.provision.slurm_jobs import (
    ALICE,
    CHAIN,
    HOUR,
    NOW,
    advance_chain,
    chain,
    ended,
    events,
    links,
    register,
    running,
    standby,
)

WAITS = "link 2 (job 12) waits for link 1 (job 11)"


@pytest.fixture
def turns_store(lab_store: Store) -> Store:
    register(lab_store, style=Style.SEQUENTIAL, now=NOW - HOUR)
    return lab_store


def told(store: Store, *jobs: Job, now: int = NOW) -> tuple[ChainState, str]:
    found = advance_chain(store, *jobs, now=now)
    return found.state, explanations.describe_chain(found)


def test_a_link_beside_its_predecessor_waits_for_it_and_the_chain_says_so(
    turns_store: Store,
) -> None:
    assert told(turns_store, running(1, NOW - HOUR), running(2), standby(3)) == (
        ChainState.ACTIVE,
        WAITS,
    )
    assert script_turns.find_awaited_links(
        chain(turns_store), links(turns_store).values()
    ).keys() == {2}
    over = ended(1, JobState.TIMEOUT, NOW - HOUR, NOW + 60)
    assert told(turns_store, over, running(2), standby(3), now=NOW + 120) == (
        ChainState.ACTIVE,
        "",
    )
    assert script_turns.find_awaited_links(chain(turns_store), links(turns_store).values()) == {}
    assert script_turns.compute_script_starts(chain(turns_store), links(turns_store).values()) == {
        1: NOW - HOUR,
        2: NOW + 60,
    }


def test_mail_says_so(turns_store: Store) -> None:
    told(turns_store, running(1, NOW - HOUR), running(2), standby(3))
    is_now = build_situation(chain(turns_store), None, NOW)
    troubled = Situation(state=ChainState.ACTIVE, at_risk="NoStandby", interrupted=False)
    ((_, says),) = find_news(chain(turns_store), troubled, is_now)
    assert says == f"a link is running, and nothing is at risk: {WAITS}"


@pytest.mark.parametrize("style", [None, *(s for s in Style if s is not Style.SEQUENTIAL)])
def test_in_a_chain_of_another_style_nobody_waits(lab_store: Store, style: Style | None) -> None:
    register(lab_store, style=style, now=NOW - HOUR)
    assert told(lab_store, running(1, NOW - HOUR), running(2), standby(3))[1] == ""
    starts = script_turns.compute_script_starts(chain(lab_store), links(lab_store).values())
    assert starts == {1: NOW - HOUR, 2: NOW - 60}


def test_the_cancelled_link_that_runs_ends_the_chain_though_another_waits_beside_it(
    turns_store: Store,
) -> None:
    told(turns_store, running(1, NOW - HOUR), running(2), standby(3))
    cancelled = ended(1, JobState.CANCELLED, NOW - HOUR, NOW + 10)
    outcome = told(turns_store, cancelled, running(2), standby(3), now=NOW + 60)
    assert outcome == (ChainState.CANCELLED, "link 1 was cancelled")


def test_a_cancelled_link_that_waits_is_a_standby_that_vanished(
    turns_store: Store,
) -> None:
    first = running(1, NOW - HOUR)
    told(turns_store, first, running(2))
    lost = ended(2, JobState.CANCELLED, NOW - 60, NOW + 10)
    state, note = told(turns_store, first, lost, now=NOW + 60)
    assert (state, "the standby for link 2 (job 12) is gone: CANCELLED" in note) == (
        ChainState.ACTIVE,
        True,
    )
    anew = standby(2, job_id=JobId(19), submit=NOW + 11)
    assert told(turns_store, first, lost, anew, now=NOW + 120) == (ChainState.ACTIVE, "")
    assert "replaced" in events(turns_store)
    again = ended(2, JobState.CANCELLED, NOW + 130, NOW + 140, job_id=JobId(19), submit=NOW + 11)
    state, note = told(turns_store, first, lost, again, now=NOW + 180)
    assert (state, "as was the one before it" in note) == (ChainState.PAUSED, True)


def test_one_that_was_warned_and_stepped_back_is_followed_as_its_new_job(
    turns_store: Store,
) -> None:
    first = running(1, NOW - HOUR, time_limit_s=10 * HOUR)
    told(turns_store, first, running(2, NOW), now=NOW + 60)
    back = ended(2, JobState.COMPLETED, NOW, NOW + 2 * HOUR)
    anew = standby(2, job_id=JobId(19), submit=NOW + 2 * HOUR - 5)
    told(turns_store, first, back, anew, now=NOW + 2 * HOUR + 60)
    assert (links(turns_store)[2].job_id, links(turns_store)[2].state) == (
        19,
        LinkState.PENDING,
    )


def test_failing_fast_counts_from_the_scripts_first_line(turns_store: Store) -> None:
    """Each link waited for half an hour, and its script failed within a minute."""
    shown: list[Job] = []
    for index in range(1, 5):
        end = NOW + 60 * index
        shown.append(ended(index, JobState.FAILED, end - HOUR // 2, end))
    state, note = told(turns_store, *shown, standby(5), now=NOW + 300)
    assert (state, "failed within 10 minutes" in note) == (ChainState.PAUSED, True)


def test_the_wait_is_not_in_the_chains_total(turns_store: Store) -> None:
    with turns_store.begin() as tx:
        chains.save_chain(tx, 1, replace(chains.get_chain(tx, 1, CHAIN), total_s=2 * HOUR))
    first = ended(1, JobState.TIMEOUT, NOW - HOUR, NOW)
    second = ended(2, JobState.COMPLETED, NOW - HOUR // 2, NOW + HOUR // 2)
    outcome = told(turns_store, first, second, now=NOW + HOUR)
    assert outcome == (ChainState.FINISHED, "ended with link 2, COMPLETED")


def test_a_requeued_predecessor_is_not_waited_for() -> None:
    first = Link(chain_id=CHAIN, index=1, job_id=JobId(1), submit=0)
    second = replace(first, index=2, job_id=JobId(2), state=LinkState.RUNNING, start=NOW)
    made = Chain(chain_id=CHAIN, uid=ALICE, style=Style.SEQUENTIAL)
    assert script_turns.compute_script_starts(made, [second, first]) == {2: NOW}
    runs = replace(first, state=LinkState.RUNNING, start=NOW - 5)
    assert script_turns.compute_script_starts(made, [second, runs]) == {1: NOW - 5}
