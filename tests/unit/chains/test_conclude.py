"""What becomes of a chain is told by its links."""

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains.chain_state import NEVER_SEEN_S
from mirage.chains.explanations import describe_chain
from mirage.chains.standby_position import GRACE_S
from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.job import Job, JobId, JobState
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    advance_chain,
    chain,
    ended,
    events,
    job,
    running,
    standby,
)

BEGAN = NOW - HOUR  # of `chain_store`


def told(store: Store, *jobs: Job, now: int = NOW) -> tuple[ChainState, str]:
    found = advance_chain(store, *jobs, now=now)
    return found.state, describe_chain(found)


def done(index: int, state: JobState = JobState.TIMEOUT, end: int = NOW) -> Job:
    return ended(index, state, end - HOUR, end)


def test_a_registration_whose_job_is_never_seen_fails_after_a_day(chain_store: Store) -> None:
    assert told(chain_store, now=BEGAN + NEVER_SEEN_S) == (ChainState.ACTIVE, "")
    assert told(chain_store, now=BEGAN + NEVER_SEEN_S + 1) == (
        ChainState.FAILED,
        "Slurm has never shown a job of this chain",
    )


def test_a_chain_with_a_standby_goes_on(chain_store: Store) -> None:
    assert told(chain_store, running(1), standby(2)) == (ChainState.ACTIVE, "")
    assert told(chain_store, done(1), standby(2)) == (ChainState.ACTIVE, "")
    assert events(chain_store) == ["registered"]


def test_a_chain_whose_last_link_ended_is_finished(chain_store: Store) -> None:
    links = [done(1, end=NOW - 2 * HOUR), done(2, end=NOW - HOUR)]
    assert told(chain_store, *links, running(3)) == (ChainState.ACTIVE, "")
    assert told(chain_store, *links, done(3)) == (ChainState.FINISHED, "all 3 links ran")
    assert events(chain_store)[-1] == "chain finished"


def test_a_service_that_was_away_reads_accounting_before_it_concludes(chain_store: Store) -> None:
    """It knows of link 1; accounting will tell of later links, or of none."""
    with chain_store.begin() as tx:
        clusters.set_history_until(tx, 1, NOW)
    later = NOW + 5 * HOUR
    assert told(chain_store, done(1), now=later) == (ChainState.ACTIVE, "")
    with chain_store.begin() as tx:
        clusters.set_history_until(tx, 1, later)
    assert told(chain_store, now=later)[0] is ChainState.FAILED


def test_a_chain_that_its_owner_resumes_after_its_link_was_cancelled_is_followed(
    chain_store: Store,
) -> None:
    cancelled = done(1, JobState.CANCELLED)
    assert told(chain_store, cancelled, standby(2))[0] is ChainState.CANCELLED
    turned_away = ended(2, JobState.COMPLETED, NOW + 10, NOW + 15)
    assert told(chain_store, cancelled, turned_away, now=NOW + 60)[0] is ChainState.CANCELLED
    resumed = job(2, job_id=JobId(20), submit=NOW + 100)
    assert told(chain_store, cancelled, turned_away, resumed, now=NOW + 120) == (
        ChainState.ACTIVE,
        "",
    )
    assert "taken up again" in events(chain_store)
    runs = running(2, NOW + 130, job_id=JobId(20), submit=NOW + 100)
    assert told(chain_store, cancelled, runs, now=NOW + 180)[0] is ChainState.ACTIVE
    again = ended(2, JobState.CANCELLED, NOW + 130, NOW + 200, job_id=JobId(20), submit=NOW + 100)
    assert told(chain_store, again, now=NOW + 240) == (ChainState.CANCELLED, "link 2 was cancelled")


def test_a_chain_that_was_asked_to_end_stays_so(chain_store: Store) -> None:
    told(chain_store, running(1))
    with chain_store.begin() as tx:
        asked = chains.get_chain(tx, 1, CHAIN)
        chain_service.request_state(tx, 1, asked, ChainState.CANCELLED, now=NOW, actor="alice")
    cancelled = done(1, JobState.CANCELLED, NOW + 10)
    later = job(2, submit=NOW + 100)
    assert told(chain_store, cancelled, later, now=NOW + 120)[0] is ChainState.CANCELLED


def test_a_chain_is_not_finished_while_an_earlier_link_runs(chain_store: Store) -> None:
    assert told(chain_store, running(2), done(3))[0] is ChainState.ACTIVE


def test_a_cancelled_link_ends_its_chain(chain_store: Store) -> None:
    outcome = told(chain_store, done(1, JobState.CANCELLED), standby(2))
    assert outcome == (ChainState.CANCELLED, "link 1 was cancelled")


def test_a_cancelled_link_whose_successor_runs_already_ends_nothing(chain_store: Store) -> None:
    beside = running(2, start=NOW - 600)
    assert (
        told(chain_store, done(1, JobState.CANCELLED), beside, standby(3))[0] is ChainState.ACTIVE
    )


def test_a_successor_that_starts_after_the_cancel_does_not_save_the_chain(
    chain_store: Store,
) -> None:
    later = running(2, start=NOW + 5)
    assert told(chain_store, done(1, JobState.CANCELLED), later)[0] is ChainState.CANCELLED


def test_a_link_cancelled_in_the_second_in_which_it_began_ends_its_chain(
    chain_store: Store,
) -> None:
    """It had a node, and had submitted the next link by then, which its guard turned away."""
    told(chain_store, job(1, submit=NOW))
    began = ended(1, JobState.CANCELLED, NOW, NOW, submit=NOW, node_list="cn1")
    turned_away = ended(2, JobState.COMPLETED, NOW, NOW, submit=NOW)
    outcome = told(chain_store, began, turned_away, now=NOW + 2 * GRACE_S)
    assert outcome == (ChainState.CANCELLED, "link 1 was cancelled")


def test_a_chain_cancelled_before_its_first_link_ran(chain_store: Store) -> None:
    outcome = told(chain_store, ended(1, JobState.CANCELLED, NOW, NOW))
    assert outcome == (ChainState.CANCELLED, "cancelled before it started")


def test_a_running_link_without_a_standby_is_at_risk_after_a_while(chain_store: Store) -> None:
    link = running(1, start=NOW)
    assert told(chain_store, link, now=NOW + GRACE_S) == (ChainState.ACTIVE, "")
    says = "at risk: the link after link 1 is not in the queue"
    assert told(chain_store, link, now=NOW + GRACE_S + 1) == (ChainState.ACTIVE, says)
    assert chain(chain_store).at_risk == ChainRisk(of=Risk.NO_STANDBY, link=1, job_id=JobId(11))
    assert told(chain_store, link, standby(2), now=NOW + 300) == (ChainState.ACTIVE, "")
    assert chain(chain_store).at_risk is None
    assert events(chain_store) == ["registered", "at risk"]


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (JobState.COMPLETED, ChainState.FINISHED),
        (JobState.FAILED, ChainState.FAILED),
        (JobState.NODE_FAIL, ChainState.FAILED),
    ],
)
def test_a_chain_that_nothing_follows_is_over_after_a_while(
    chain_store: Store, end: JobState, state: ChainState
) -> None:
    assert told(chain_store, done(1, end), now=NOW + GRACE_S)[0] is ChainState.ACTIVE
    outcome = told(chain_store, done(1, end), now=NOW + GRACE_S + 1)
    assert outcome == (state, f"ended with link 1, {end}")


def test_a_paused_chain_stays_paused_and_says_by_whom(chain_store: Store) -> None:
    told(chain_store, running(1), standby(2))
    with chain_store.begin() as tx:
        chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
    outcome = told(chain_store, done(1), standby(2), now=NOW + HOUR)
    assert outcome == (ChainState.PAUSED, "paused by alice")


@pytest.mark.parametrize("state", [JobState.TIMEOUT, JobState.COMPLETED, JobState.FAILED])
def test_a_chain_that_nobody_registered_ends_as_a_registered_one_does(
    lab_store: Store, state: JobState
) -> None:
    """Its last link puts no other behind itself: nobody else knows that it is the last."""
    told(lab_store, running(1), standby(2), now=NOW - HOUR)
    found = told(lab_store, done(1), done(2, state), now=NOW + GRACE_S + 1)
    assert found == (ChainState.FINISHED, f"ended with link 2, {state}")


def test_a_chain_that_nobody_registered_fails_if_its_next_link_was_there_and_is_gone(
    lab_store: Store,
) -> None:
    told(lab_store, running(1), standby(2), now=NOW - HOUR)
    gone = ended(2, JobState.CANCELLED, None, NOW - 60)
    assert told(lab_store, done(1), gone, now=NOW + GRACE_S + 1)[0] is ChainState.FAILED
