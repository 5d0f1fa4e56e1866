"""Links are what Slurm shows of jobs with a mark: found, followed, and not forged."""

from dataclasses import replace

import pytest

from mirage.chains import link_sync as link_service
from mirage.chains.lifecycle import Registration, register_chain
from mirage.chains.standby_position import GRACE_S
from mirage.database.chains import chains
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, LinkState, Mark, Position
from mirage.domain.decision import Forecast
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.errors import NotFound
from tests.support.provision.slurm_jobs import (
    ALICE,
    CHAIN,
    HOUR,
    NOW,
    chain,
    ended,
    ended_record,
    events,
    job,
    links,
    record,
    running,
    standby,
    sync,
)

MALLORY = 666


def missing(store: Store, now: int) -> list[JobId]:
    with store.read() as tx:
        return link_service.list_missing_jobs(tx, 1, now)


def test_a_marked_job_that_nobody_registered_is_adopted(lab_store: Store) -> None:
    sync(lab_store, standby(2), running(1))
    found = chain(lab_store)
    assert (found.uid, found.user, found.links_planned) == (ALICE, "alice", None)
    first, second = links(lab_store)[1], links(lab_store)[2]
    assert (first.state, first.start) == (LinkState.RUNNING, NOW - 60)
    assert (second.state, second.position, second.start) == (
        LinkState.PENDING,
        Position.HELD,
        None,
    )
    assert events(lab_store) == ["adopted"]


def test_the_start_that_slurm_plans_is_kept_while_it_waits(lab_store: Store) -> None:
    sync(lab_store, running(1), standby(2))
    assert links(lab_store)[2].planned_start is None, "of a held one Slurm plans nothing"
    for planned in (NOW + HOUR, NOW + 2 * HOUR):
        sync(lab_store, running(1), job(2, start=planned))
        assert (links(lab_store)[2].planned_start, links(lab_store)[2].start) == (planned, None)
    sync(lab_store, record(2, start=NOW + HOUR), accounting=True)  # which plans nothing
    assert links(lab_store)[2].planned_start == NOW + 2 * HOUR
    sync(lab_store, running(1), running(2))
    assert links(lab_store)[2].planned_start is None


def test_the_end_that_slurm_has_in_store_is_kept_while_it_runs(lab_store: Store) -> None:
    """An hour's suspension moves it by an hour; the time limit knows nothing of that."""
    start, limit = NOW - 60, NOW - 60 + HOUR
    sync(lab_store, running(1, start, end=limit))
    assert links(lab_store)[1].get_planned_end() == limit
    sync(lab_store, job(1, JobState.SUSPENDED, start=start, end=limit - 60))
    assert links(lab_store)[1].get_planned_end() == limit
    # It is being preempted, and may run again.
    sync(lab_store, running(1, start, end=limit - HOUR))
    assert links(lab_store)[1].get_planned_end() == limit
    sync(lab_store, running(1, start, end=limit + HOUR))
    assert links(lab_store)[1].get_planned_end() == limit + HOUR
    told = record(1, JobState.RUNNING, start=start)
    assert told.expected_end is None
    sync(lab_store, told, accounting=True)
    assert links(lab_store)[1].get_planned_end() == limit + HOUR


def test_the_same_answer_again_only_says_that_it_was_seen(lab_store: Store) -> None:
    sync(lab_store, running(1), standby(2))
    before = links(lab_store)
    sync(lab_store, running(1), standby(2), now=NOW + 60)
    assert links(lab_store) == {i: replace(li, seen_at=NOW + 60) for i, li in before.items()}
    assert events(lab_store) == ["adopted"]


def test_a_registered_chain_keeps_what_its_user_said(lab_store: Store) -> None:
    with lab_store.begin() as tx:
        new = Registration(chain_id=CHAIN, links=5, policy="average", overlap_price=2.0)
        register_chain(tx, 1, new, uid=ALICE, user="alice", now=NOW)
    sync(lab_store, running(1))
    found = chain(lab_store)
    assert (found.links_planned, found.policy, found.overlap_price) == (5, "average", 2.0)
    assert events(lab_store) == ["registered"]


def test_a_mark_on_a_foreign_job_is_ignored(lab_store: Store) -> None:
    sync(lab_store, running(1))
    sync(lab_store, running(1), job(2, uid=MALLORY), now=NOW + 60)
    assert list(links(lab_store)) == [1]
    assert chain(lab_store).uid == ALICE


def test_a_copied_mark_of_a_link_that_slurm_has_forgotten_gets_nothing(lab_store: Store) -> None:
    sync(lab_store, job(1, uid=MALLORY, user="mallory", job_id=JobId(99)), running(2), standby(3))
    assert (chain(lab_store).uid, sorted(links(lab_store))) == (ALICE, [2, 3])


def test_a_job_of_an_unknown_uid_is_nobodys(lab_store: Store) -> None:
    """Accounting has jobs of users that are gone; a row of squeue without a uid does not read."""
    gone = record(1, JobState.RUNNING, start=NOW - 60, uid=None)
    sync(lab_store, gone, accounting=True)
    with lab_store.read() as tx, pytest.raises(NotFound):
        chains.get_chain(tx, 1, CHAIN)


def test_a_link_whose_comment_is_rewritten_stays_what_it_is(lab_store: Store) -> None:
    """One user's `scontrol update Comment=` must not stop the tick for everybody."""
    sync(lab_store, running(1))
    other = ChainId("otherchain")
    sync(lab_store, running(1, comment=str(Mark(other, 3))), running(1), now=NOW + 60)
    assert links(lab_store, other) == {}
    assert links(lab_store)[1].job_id == 11


def test_a_requeued_link_waits_again_under_its_new_submit_time(lab_store: Store) -> None:
    sync(lab_store, running(1))
    sync(lab_store, job(1, submit=NOW + 10), standby(2), now=NOW + 60)
    link = links(lab_store)[1]
    assert (link.state, link.submit, link.start) == (LinkState.PENDING, NOW + 10, None)
    assert events(lab_store) == ["adopted", "requeued"]


def test_a_link_that_had_ended_may_be_requeued(lab_store: Store) -> None:
    sync(lab_store, ended(1, JobState.FAILED, NOW - 60, NOW - 10))
    sync(lab_store, job(1, submit=NOW + 10), now=NOW + 60)
    link = links(lab_store)[1]
    assert (link.state, link.end, link.end_state) == (LinkState.PENDING, None, None)


def test_a_requeued_standby_is_no_longer_one_that_mirage_freed(lab_store: Store) -> None:
    sync(lab_store, running(1), running(2))
    with lab_store.begin() as tx:
        chains.save_link(tx, 1, replace(links(lab_store)[2], freed_at=NOW - 90))
    sync(lab_store, running(1), job(2, submit=NOW + 10), now=NOW + 60)
    assert links(lab_store)[2].freed_at is None


@pytest.mark.parametrize("state", [JobState.REQUEUED, JobState.NODE_FAIL])
def test_the_record_of_the_run_before_does_not_end_a_requeued_link(
    lab_store: Store, state: JobState
) -> None:
    old = ended_record(1, state, NOW - 60, NOW)
    again = record(1, submit=NOW + 1)
    sync(lab_store, running(1))
    sync(lab_store, again, old, now=NOW + 60, accounting=True)
    assert (links(lab_store)[1].state, links(lab_store)[1].submit) == (LinkState.PENDING, NOW + 1)
    sync(lab_store, old, now=NOW + 90, accounting=True)
    assert links(lab_store)[1].state is LinkState.PENDING


def test_a_requeued_record_alone_is_no_waiting_job_and_ends_nothing(lab_store: Store) -> None:
    sync(lab_store, running(1))
    before = links(lab_store)
    old = ended_record(1, JobState.REQUEUED, NOW - 60, NOW)
    sync(lab_store, old, now=NOW + 60, accounting=True)
    assert links(lab_store) == before


@pytest.mark.parametrize(
    "stale",
    [record(1), record(1, JobState.RUNNING, start=NOW - 60)],
    ids=["waiting, told late", "running, told late"],
)
def test_a_record_that_is_behind_changes_nothing(lab_store: Store, stale: Job) -> None:
    sync(lab_store, ended(1, JobState.COMPLETED, NOW - 60, NOW - 10))
    before = links(lab_store)
    sync(lab_store, stale, now=NOW + 60, accounting=True)
    assert links(lab_store) == before


def test_a_standby_that_is_submitted_anew_takes_the_place(lab_store: Store) -> None:
    sync(lab_store, running(1), standby(2))
    gone = ended(2, JobState.CANCELLED, NOW, NOW)
    new = standby(2, job_id=JobId(20), submit=NOW + 5)
    sync(lab_store, running(1), new, gone, now=NOW + 60)
    assert (links(lab_store)[2].job_id, links(lab_store)[2].state) == (20, LinkState.PENDING)
    sync(lab_store, running(1), gone, new, now=NOW + 120)
    assert links(lab_store)[2].job_id == 20
    assert events(lab_store) == ["adopted", "replaced"]


def test_nothing_takes_the_place_of_a_link_that_ran(lab_store: Store) -> None:
    sync(lab_store, ended(1, JobState.TIMEOUT, NOW - HOUR, NOW))
    sync(lab_store, job(1, job_id=JobId(50), submit=NOW + 5), now=NOW + 60)
    assert links(lab_store)[1].job_id == 11


@pytest.mark.parametrize(
    "line",
    [
        "sbatch --comment=mirage:abcd1234:1 job.sh",
        "sbatch --comment mirage:abcd1234:1 job.sh",
        "sbatch '--comment=ablation run mirage:abcd1234:1' job.sh",
        'sbatch --comment="mirage:abcd1234:1" job.sh',
    ],
)
def test_without_comments_the_submit_line_has_the_mark(lab_store: Store, line: str) -> None:
    found = record(1, JobState.RUNNING, start=NOW - 60, comment="", submit_line=line)
    sync(lab_store, found, accounting=True)
    assert links(lab_store)[1].job_id == 11


def test_an_open_link_without_any_mark_is_found_by_its_number(lab_store: Store) -> None:
    sync(lab_store, running(1))
    sync(
        lab_store,
        ended_record(1, JobState.COMPLETED, NOW - 60, NOW, comment="", submit_line="sbatch job.sh"),
        now=NOW + 600,
        accounting=True,
    )
    assert links(lab_store)[1].end_state is JobState.COMPLETED


def test_text_before_the_mark_is_the_users(lab_store: Store) -> None:
    sync(lab_store, running(1, comment="mirage:nonsense run 7 mirage:abcd1234:1"))
    assert links(lab_store)[1].job_id == 11


def test_array_rows_are_no_links() -> None:
    assert list(link_service.parse_marks([job(1, array_tasks="1-20%4")])) == []
    assert len(list(link_service.parse_marks([running(1)]))) == 1


def test_only_marked_jobs_of_the_queue_are_links() -> None:
    queue = Queue.from_jobs(
        NOW, [running(1), running(2, comment=""), running(3, comment="for mirage")]
    )
    assert [found.job_id for found in link_service.list_marked_jobs(queue)] == [11]


def test_an_unknown_word_for_a_state_concludes_nothing(lab_store: Store) -> None:
    sync(lab_store, running(1))
    before = links(lab_store)[1]
    sync(lab_store, job(1, JobState.UNKNOWN, start=None), now=NOW + 60)
    assert links(lab_store)[1] == replace(before, seen_at=NOW + 60)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("afterany:11(unfulfilled)", Position.HELD),
        ("afterok:7(unfulfilled),afterany:11(unfulfilled)", Position.HELD),
        ("", Position.FREE),
        ("afterok:7(unfulfilled)", Position.FREE),
        ("what is this", Position.HELD),
    ],
)
def test_a_standby_is_held_by_mirages_own_term(
    lab_store: Store, text: str, position: Position
) -> None:
    sync(lab_store, running(1), standby(2, dependency=text))
    assert links(lab_store)[2].position is position


def test_accounting_does_not_tell_where_a_standby_stands(lab_store: Store) -> None:
    sync(lab_store, running(1), standby(2))
    beside = record(1, JobState.RUNNING, start=NOW - 60)
    sync(lab_store, beside, record(2), now=NOW + 60, accounting=True)
    assert links(lab_store)[2].position is Position.HELD


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.DEADLINE])
def test_a_standby_that_ended_unstarted_has_no_start(lab_store: Store, state: JobState) -> None:
    sync(lab_store, running(1), ended(2, state, NOW, NOW))
    assert (links(lab_store)[2].start, links(lab_store)[2].end) == (None, NOW)


@pytest.mark.parametrize(("eligible", "error"), [(NOW + 5, 60.0), (NOW + 35, 90.0)])
def test_the_wait_of_a_freed_standby_settles_its_forecast(
    lab_store: Store, eligible: int, error: float
) -> None:
    """From when it was freed; after a pause, from when the hold was lifted."""
    sync(lab_store, running(1), standby(2))
    row = ForecastRow(
        chain_id=CHAIN, index=2, source="average", at=NOW, forecast=Forecast(p50_s=100.0)
    )
    with lab_store.begin() as tx:
        chains.save_link(tx, 1, replace(links(lab_store)[2], freed_at=NOW + 5))
        handover_forecasts.record_forecasts(tx, 1, [row])
    sync(lab_store, running(1), running(2, start=NOW + 45, eligible=eligible), now=NOW + 60)
    with lab_store.read() as tx:
        assert handover_forecasts.list_errors(tx, 1, last=9) == [error]


def test_a_link_is_missing_once_three_queues_did_not_show_it(lab_store: Store) -> None:
    sync(lab_store, running(1), ended(2, JobState.COMPLETED, NOW - 60, NOW))
    assert missing(lab_store, NOW + GRACE_S) == []
    assert missing(lab_store, NOW + GRACE_S + 1) == [11]


def test_what_slurm_forgot_has_ended_at_the_latest_by_its_limit(lab_store: Store) -> None:
    sync(lab_store, running(1), standby(2))
    with lab_store.begin() as tx:
        link_service.close_forgotten(tx, 1, {JobId(11), JobId(12)}, NOW + 2 * HOUR)
    first, second = links(lab_store)[1], links(lab_store)[2]
    assert (first.end, first.end_state) == (NOW - 60 + HOUR, JobState.UNKNOWN)
    assert (second.state, second.end) == (LinkState.ENDED, None)
    assert events(lab_store) == ["adopted", "forgotten by Slurm", "forgotten by Slurm"]
    told = ended_record(1, JobState.FAILED, NOW - 60, NOW)
    sync(lab_store, told, now=NOW + 3 * HOUR, accounting=True)
    assert (links(lab_store)[1].end, links(lab_store)[1].end_state) == (NOW, JobState.FAILED)
