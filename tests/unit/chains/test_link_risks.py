"""Chains at risk: what of is said, and their hand-overs are held against nobody."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.chains.chain_state import BLINKS, FAST_FAILURES
from mirage.chains.explanations import describe_chain
from mirage.chains.standby_position import GRACE_S
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, Position, Presubmit
from mirage.domain.decision import Forecast
from mirage.domain.job import Job, JobId, JobState
from tests.support.paths import DATA
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    ended,
    events,
    follow,
    job,
    links,
    register,
    running,
    standby,
)

DOWN = "ReqNodeNotAvail, UnavailableNodes:gpu03"


@pytest.fixture
def store_of_50(lab_store: Store) -> Store:
    register_50(lab_store)
    return lab_store


def register_50(store: Store, **more: Any) -> None:
    register(store, links=50, now=NOW - HOUR, **more)


def twice(store: Store, *jobs: Job) -> tuple[ChainState, str, str]:
    follow(store, *jobs)
    return follow(store, *jobs, now=NOW + 60)


def freed(reason: str) -> Job:
    return job(2, reason=reason)


def test_one_look_at_a_wait_says_nothing_and_two_looks_do(store_of_50: Store) -> None:
    """Slurm says ReqNodeNotAvail of many a job while backfill is at work."""
    assert follow(store_of_50, running(1), freed(reason=DOWN))[1] == ""
    state, risk, note = follow(store_of_50, running(1), freed(reason=DOWN), now=NOW + 60)
    assert (state, risk) == (ChainState.ACTIVE, "ReqNodeNotAvail")
    assert note == (
        "at risk: link 2 (job 12) waits: nodes that it could run on, or that it asks for by name, "
        "are down, drained or reserved"
    )
    assert events(store_of_50)[-1] == "at risk"


def test_what_is_over_is_no_risk_and_stays_on_the_link(store_of_50: Store) -> None:
    twice(store_of_50, running(1), freed(reason=DOWN))
    assert follow(store_of_50, running(1), freed(reason="Priority"), now=NOW + 120)[1:] == (
        "",
        "",
    )
    assert links(store_of_50)[2].hindered == "ReqNodeNotAvail"
    assert events(store_of_50).count("at risk") == 1


def test_a_limit_that_the_predecessor_takes_up_is_said_and_is_no_risk(
    store_of_50: Store,
) -> None:
    _, risk, note = twice(store_of_50, running(1), freed(reason="QOSMaxJobsPerUserLimit"))
    assert risk == ""
    assert note.endswith("it cannot start beside its predecessor")
    over = ended(1, JobState.TIMEOUT, NOW - HOUR, NOW)
    found = follow(store_of_50, over, freed(reason="QOSMaxJobsPerUserLimit"), now=NOW + 120)
    assert found[1] == "QOSMaxJobsPerUserLimit"


def test_a_hindered_wait_is_held_against_no_forecast_and_teaches_none(
    store_of_50: Store,
) -> None:
    follow(store_of_50, running(1), standby(2))
    with store_of_50.begin() as tx:
        moved = replace(chains.list_links(tx, 1, CHAIN)[1], position=Position.FREE, freed_at=NOW)
        chains.save_link(tx, 1, moved)
        row = ForecastRow(chain_id=CHAIN, index=2, source="p", at=NOW, forecast=Forecast(p50_s=1.0))
        handover_forecasts.record_forecasts(tx, 1, [row])
    twice(store_of_50, running(1), freed(reason="JobHeldAdmin"))
    over = ended(1, JobState.TIMEOUT, NOW - HOUR, NOW + 60)
    follow(store_of_50, over, running(2, start=NOW + 9 * HOUR), now=NOW + 9 * HOUR)
    with store_of_50.read() as tx:
        assert handover_forecasts.list_errors(tx, 1, 10) == []
        assert len(chains.read_handover_waits(tx, 1, nodes=1, last=10)) == 0


def test_a_paused_chain_is_at_no_risk(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2))
    with store_of_50.begin() as tx:
        chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
    found = twice(store_of_50, running(1), standby(2, reason="JobHeldUser"))
    assert found == (ChainState.PAUSED, "", "paused by alice")


def vanished(job_id: int = 12, state: JobState = JobState.CANCELLED, **fields: Any) -> Job:
    return ended(2, state, None, NOW, job_id=JobId(job_id), **fields)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.DEADLINE])
def test_a_standby_that_vanished_is_noticed_at_the_next_look(
    store_of_50: Store, state: JobState
) -> None:
    follow(store_of_50, running(1), standby(2), now=NOW - 60)
    found = follow(store_of_50, running(1), vanished(state=state))
    assert found == (
        ChainState.ACTIVE,
        "StandbyVanished",
        f"at risk: the standby for link 2 (job 12) is gone: {state}",
    )


def test_a_replaced_standby_that_vanishes_too_pauses_the_chain(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2), now=NOW - 60)
    follow(store_of_50, running(1), vanished())
    assert follow(store_of_50, running(1), vanished(), standby(2, job_id=JobId(19)))[1] == ""
    found = follow(store_of_50, running(1), vanished(), vanished(19), now=NOW + 60)
    assert found == (
        ChainState.PAUSED,
        "",
        "paused: the standby for link 2 (job 19) is gone: CANCELLED, as was the one before it",
    )


def test_what_was_seen_and_resumed_does_not_pause_again(store_of_50: Store) -> None:
    test_a_replaced_standby_that_vanishes_too_pauses_the_chain(store_of_50)
    with store_of_50.begin() as tx:
        found = chains.get_chain(tx, 1, CHAIN)
        chain_service.request_state(tx, 1, found, ChainState.ACTIVE, now=NOW + 90, actor="alice")
    assert follow(store_of_50, running(1), vanished(19), now=NOW + 120)[0] is ChainState.ACTIVE


def run(index: int, state: JobState, seconds: int) -> Job:
    """One link after the other, a minute apart."""
    start = NOW + 1000 * index
    return ended(index, state, start, start + seconds)


def test_links_that_fail_fast_in_a_row_pause_the_chain(store_of_50: Store) -> None:
    jobs = [run(i, JobState.FAILED, 60) for i in range(1, FAST_FAILURES)]
    next_one = standby(FAST_FAILURES)
    assert follow(store_of_50, *jobs, next_one, now=NOW + 5000)[0] is ChainState.ACTIVE
    jobs.append(run(FAST_FAILURES, JobState.FAILED, 60))
    found = follow(store_of_50, *jobs, standby(FAST_FAILURES + 1), now=NOW + 5000)
    assert found[0] is ChainState.PAUSED
    why = f"{FAST_FAILURES} links in a row failed within 10 minutes"
    assert found[2] == f"paused: {why}; mend the cause, then run `mirage chain resume {CHAIN}`"


def test_a_link_that_runs_on_ends_a_pause_that_was_only_concluded(store_of_50: Store) -> None:
    """In `shadow` nothing keeps it from starting."""
    jobs = [run(i, JobState.FAILED, 60) for i in range(1, FAST_FAILURES + 1)]
    at, index = NOW + 5000, FAST_FAILURES + 1
    paused = follow(store_of_50, *jobs, standby(index), now=at)
    assert paused[0] is ChainState.PAUSED
    begun = (running(index, start=at), standby(index + 1))
    assert follow(store_of_50, *begun, now=at + 599) == paused
    assert follow(store_of_50, *begun, now=at + 600) == (ChainState.ACTIVE, "", "")
    assert follow(store_of_50, *begun, now=at + 660) == (ChainState.ACTIVE, "", "")


def test_a_pause_that_its_owner_asked_for_no_link_ends(store_of_50: Store) -> None:
    follow(store_of_50, running(1), standby(2))
    with store_of_50.begin() as tx:
        chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
    asked = (ChainState.PAUSED, "", "paused by alice")
    assert follow(store_of_50, running(1), standby(2), now=NOW + 3000) == asked


def test_an_owner_may_ask_for_the_pause_that_was_concluded(store_of_50: Store) -> None:
    """It is carried out then, also in `shadow`."""
    jobs = [run(i, JobState.FAILED, 60) for i in range(1, FAST_FAILURES + 1)]
    follow(store_of_50, *jobs, standby(FAST_FAILURES + 1), now=NOW + 5000)
    with store_of_50.begin() as tx:
        found = chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
        assert (found.state, describe_chain(found)) == (ChainState.PAUSED, "paused by alice")
        assert (
            chain_service.request_state(tx, 1, found, ChainState.PAUSED, now=NOW, actor="al")
            == found
        )
    assert events(store_of_50).count("asked: paused") == 1


def test_what_is_fast_is_the_chains_own_word(store_of_50: Store) -> None:
    jobs = [run(i, JobState.FAILED, 60) for i in range(1, FAST_FAILURES + 1)]
    register_50(store_of_50, min_runtime_s=60)
    found = follow(store_of_50, *jobs, standby(FAST_FAILURES + 1), now=NOW + 5000)
    assert found[0] is ChainState.ACTIVE
    register_50(store_of_50, min_runtime_s=61)
    found = follow(store_of_50, *jobs, standby(FAST_FAILURES + 1), now=NOW + 5000)
    why = f"{FAST_FAILURES} links in a row failed within 61 s"
    assert found[2] == f"paused: {why}; mend the cause, then run `mirage chain resume {CHAIN}`"


def test_a_link_that_worked_in_between_is_no_row_of_failures(store_of_50: Store) -> None:
    ends = [JobState.FAILED, JobState.FAILED, JobState.TIMEOUT, JobState.FAILED]
    jobs = [run(i, state, 590) for i, state in enumerate(ends, start=1)]
    assert follow(store_of_50, *jobs, standby(5), now=NOW + 5000)[0] is ChainState.ACTIVE


def test_failures_are_not_fast_after_ten_minutes(store_of_50: Store) -> None:
    jobs = [run(i, JobState.FAILED, 600) for i in range(1, 6)]
    assert follow(store_of_50, *jobs, standby(6), now=NOW + 9000)[0] is ChainState.ACTIVE


BRIEF_LINKS = json.loads((DATA / "brief-links-cases.json").read_text())["cases"]
"""The carrier has this rule and these cases too (slurm_plugin/test_rules_in_two_languages.py)."""


@pytest.mark.parametrize("case", BRIEF_LINKS, ids=lambda case: case["why"])
def test_links_that_do_nothing_are_a_loop_as_in_the_cases(
    store_of_50: Store, case: dict[str, Any]
) -> None:
    register_50(store_of_50, presubmit=Presubmit(case["presubmit"]))
    runs = enumerate(case["runs_s"], start=1)
    jobs = [run(i, JobState.COMPLETED, run_s) for i, run_s in runs]
    found = follow(store_of_50, *jobs, standby(len(jobs) + 1), now=NOW + 9000)
    assert found[0] is (ChainState.PAUSED if case["pauses"] else ChainState.ACTIVE)


def test_a_chain_that_has_run_its_total_is_finished_whatever_ended_its_last_link(
    store_of_50: Store,
) -> None:
    register_50(store_of_50, total_s=2 * HOUR)
    first = ended(1, JobState.TIMEOUT, NOW - 2 * HOUR, NOW - HOUR)
    last = running(2, start=NOW - HOUR)
    assert follow(store_of_50, first, last, now=NOW - 60)[:2] == (
        ChainState.ACTIVE,
        "",
    )
    over = ended(2, JobState.TIMEOUT, NOW - HOUR, NOW)
    found = follow(store_of_50, first, over, now=NOW + GRACE_S + 1)
    assert found[0] is ChainState.FINISHED
    assert found[2] == "its links ran for 2.0 h in total"


def test_a_chain_that_its_owner_takes_up_again_is_not_over(store_of_50: Store) -> None:
    """A link's guard had paused it, which looks like an end from here."""
    over = ended(1, JobState.COMPLETED, NOW - HOUR, NOW)
    assert follow(store_of_50, over, now=NOW + GRACE_S + 1)[0] is ChainState.FINISHED
    assert follow(store_of_50, over, running(2, start=NOW + HOUR))[0] is ChainState.ACTIVE
    with store_of_50.read() as tx:
        (entry,) = audit.list_entries(tx, 1, chain_id=CHAIN, event="taken up again")
    assert entry.detail == {"link": 2, "was": "finished"}


def stepped_back(start: int = NOW) -> Job:
    """Link 2 began beside its predecessor, and its guard has put another job in its place."""
    return ended(2, JobState.COMPLETED, start, start + 5)


def test_a_link_that_was_sent_back_is_followed_as_its_new_job(store_of_50: Store) -> None:
    follow(store_of_50, running(1), running(2, start=NOW))
    again = standby(2, job_id=JobId(19), submit=NOW + 2)
    state, risk, note = follow(store_of_50, running(1), stepped_back(), again, now=NOW + 60)
    assert (state, risk, note) == (ChainState.ACTIVE, "", "")
    link = links(store_of_50)[2]
    assert (link.job_id, link.position, link.hindered) == (19, Position.HELD, "SentBack")
    assert (
        follow(store_of_50, running(1), stepped_back(), again, now=NOW + 120)[0]
        is ChainState.ACTIVE
    )
    assert links(store_of_50)[2].job_id == 19, "its first job, still in the queue, changes nothing"
    assert events(store_of_50)[-1] == "begins anew"


def test_a_standby_that_was_sent_back_has_not_vanished_before(store_of_50: Store) -> None:
    follow(store_of_50, running(1), running(2, start=NOW))
    follow(store_of_50, running(1), stepped_back(), standby(2, job_id=JobId(19), submit=NOW + 2))
    gone = vanished(19, submit=NOW + 2)
    found = follow(store_of_50, running(1), gone, now=NOW + 60)
    assert found[:2] == (ChainState.ACTIVE, "StandbyVanished")


def test_links_that_paused_their_chain_are_believed_and_their_owner_resumes_it(
    store_of_50: Store,
) -> None:
    """The pause is a file of the owner's: from here it is a link that ends at once."""
    jobs = [run(1, JobState.FAILED, 60), run(2, JobState.FAILED, 60), run(3, JobState.COMPLETED, 2)]
    state, _, note = follow(store_of_50, *jobs, now=NOW + 5000)
    assert state is ChainState.PAUSED
    assert note == (
        "paused: its last links ended soon after their start; mend the cause, then run "
        f"`mirage-link resume {CHAIN}`"
    )
    assert follow(store_of_50, *jobs, now=NOW + 9000) == (state, "", note)
    placed = job(3, job_id=JobId(19), submit=NOW + 6000)
    assert follow(store_of_50, placed, now=NOW + 6060)[0] is ChainState.ACTIVE
    begun = running(3, start=NOW + 6100, job_id=JobId(19), submit=NOW + 6000)
    assert follow(store_of_50, begun, standby(4), now=NOW + 6120)[0] is ChainState.ACTIVE


@pytest.mark.parametrize("run_s", [2, 75])
def test_brief_links_that_paused_their_chain_are_believed_and_their_owner_resumes_it(
    store_of_50: Store, run_s: int
) -> None:
    """They count their script's time alone, and have taken their standby back."""
    jobs = [run(i, JobState.COMPLETED, run_s) for i in range(1, BLINKS + 1)]
    gone = vanished(10 + BLINKS + 1)
    state, _, note = follow(store_of_50, *jobs, gone, now=NOW + 9000)
    assert (state, "ended soon after their start" in note) == (ChainState.PAUSED, True)
    assert f"`mirage-link resume {CHAIN}`" in note
    after = BLINKS + 1
    placed = job(after, job_id=JobId(99), submit=NOW + 9500)
    assert follow(store_of_50, *jobs, placed, now=NOW + 9600)[0] is ChainState.ACTIVE
    brief = ended(after, JobState.COMPLETED, NOW + 9700, NOW + 9700 + run_s, job_id=JobId(99),
                  submit=NOW + 9500)  # fmt: skip
    found = follow(store_of_50, *jobs, brief, standby(after + 1), now=NOW + 9800)
    assert found[0] is ChainState.ACTIVE, "counted anew"


def test_a_brief_link_that_its_owner_submitted_after_the_failures_ends_its_chain(
    store_of_50: Store,
) -> None:
    jobs = [run(1, JobState.FAILED, 60), run(2, JobState.FAILED, 60)]
    follow(store_of_50, *jobs, now=NOW + 5000)
    assert follow(store_of_50, job(3, submit=NOW + 5500), now=NOW + 5600)[0] is ChainState.ACTIVE
    last = ended(3, JobState.COMPLETED, NOW + 6000, NOW + 6002, submit=NOW + 5500)
    assert follow(store_of_50, last, now=NOW + 9000)[0] is ChainState.FINISHED


def test_what_an_owner_paused_no_new_link_resumes(store_of_50: Store) -> None:
    follow(store_of_50, run(1, JobState.TIMEOUT, 900), standby(2))
    with store_of_50.begin() as tx:
        chain_service.request_state(
            tx, 1, chains.get_chain(tx, 1, CHAIN), ChainState.PAUSED, now=NOW, actor="alice"
        )
    found = follow(store_of_50, standby(2, job_id=JobId(19), submit=NOW + 50), now=NOW + 2000)
    assert (found[0], found[2]) == (ChainState.PAUSED, "paused by alice")


def test_a_link_that_a_pause_turned_away_begins_anew_when_its_owner_resumes(
    store_of_50: Store,
) -> None:
    follow(
        store_of_50,
        ended(1, JobState.FAILED, NOW - HOUR, NOW - 60),
        stepped_back(),
        now=NOW + 10,
    )
    assert follow(store_of_50, stepped_back(), now=NOW + HOUR)[0] is ChainState.FINISHED
    placed = job(2, job_id=JobId(19), submit=NOW + HOUR)
    assert follow(store_of_50, placed, now=NOW + HOUR + 60)[0] is ChainState.ACTIVE
    assert (links(store_of_50)[2].job_id, links(store_of_50)[2].hindered) == (19, "")


@pytest.mark.parametrize(
    "before",
    [
        ended(2, JobState.COMPLETED, NOW, NOW + GRACE_S),
        ended(2, JobState.FAILED, NOW, NOW + 5),
        ended(2, JobState.COMPLETED, NOW + 3, NOW + 5),
    ],
    ids=["it ran", "it failed", "submitted before it began"],
)
def test_nothing_else_takes_the_place_of_a_link_that_ran(store_of_50: Store, before: Job) -> None:
    follow(store_of_50, running(1), before)
    follow(store_of_50, running(1), standby(2, job_id=JobId(19), submit=NOW + 2), now=NOW + 60)
    assert links(store_of_50)[2].job_id == 12


def test_a_chain_that_was_cancelled_stays_so(store_of_50: Store) -> None:
    follow(store_of_50, ended(1, JobState.CANCELLED, NOW - HOUR, NOW))
    assert follow(store_of_50, running(2, start=NOW + HOUR))[0] is ChainState.CANCELLED
