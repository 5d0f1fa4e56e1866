"""Completions that slurmctld pushes: they are hints, and are checked against the queue."""

import pytest

from mirage.chains import link_sync as link_service
from mirage.database.chains import push_times
from mirage.database.chains.push_times import PushTimes
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobId, JobState
from mirage.provision.polling import completion_push
from mirage.provision.polling.completion_push import (
    LOOK_SOON_S,
    MISSED_AFTER_S,
    TRUSTED_S,
    PollingCadence,
)
from tests.support.provision.slurm_jobs import HOUR, NOW, ended, running, standby

CADENCE = PollingCadence(every_s=60, pushed_every_s=120)


def look(store: Store, *jobs: Job, now: int = NOW) -> PushTimes:
    with store.begin() as tx:
        ran = completion_push.list_running_links(tx, 1)
        link_service.sync_links(tx, 1, jobs, now)
        completion_push.check_missed_pushes(tx, 1, ran, now)
        return push_times.read_push_times(tx, 1)


def push(store: Store, job_id: int, now: int) -> bool:
    with store.begin() as tx:
        return push_times.record_push(tx, 1, JobId(job_id), now)


@pytest.mark.parametrize(
    ("told", "due"),
    [
        (PushTimes(None, None, None), NOW + 60),
        (PushTimes(NOW - 10, None, None), NOW + 120),
        (PushTimes(NOW - 10, NOW - 10, None), NOW + 120),
        (PushTimes(NOW + 5, NOW + 5, None), NOW + LOOK_SOON_S),
        (PushTimes(NOW - TRUSTED_S, None, None), NOW + 60),
        (PushTimes(NOW - 10, None, NOW - 100), NOW + 60),
        (PushTimes(NOW - 10, None, NOW - TRUSTED_S), NOW + 120),
    ],
    ids=["never", "one", "before the look", "a link", "long ago", "one is missing", "long missing"],
)
def test_the_queue_is_looked_at_less_while_pushes_get_through(told: PushTimes, due: int) -> None:
    assert CADENCE.compute_next_look(NOW, told, NOW + 6) == due


def test_a_shorter_interval_than_the_default_is_not_made_longer_by_pushes() -> None:
    assert (
        PollingCadence(300, 120).compute_next_look(NOW, PushTimes(NOW, None, None), NOW)
        == NOW + 300
    )


def test_only_links_that_have_not_ended_are_looked_for_sooner(lab_store: Store) -> None:
    look(lab_store, running(1), standby(2))
    assert not push(lab_store, 999, NOW + 1)
    assert push(lab_store, 11, NOW + 2)
    look(lab_store, ended(1, JobState.TIMEOUT, NOW - 60, NOW + 2), standby(2), now=NOW + 10)
    assert not push(lab_store, 11, NOW + 12)
    with lab_store.read() as tx:
        assert push_times.read_push_times(tx, 1) == PushTimes(NOW + 12, NOW + 2, None)


def test_an_end_that_was_told_is_not_missed(lab_store: Store) -> None:
    look(lab_store, running(1), standby(2))
    push(lab_store, 11, NOW + 20)
    over = ended(1, JobState.TIMEOUT, NOW - 60, NOW + 20)
    assert look(lab_store, over, standby(2), now=NOW + 120).last_missed is None


@pytest.mark.parametrize(
    ("late_s", "missed"), [(MISSED_AFTER_S, True), (MISSED_AFTER_S - 1, False)]
)
def test_an_end_that_nobody_told_of_means_that_pushes_do_not_get_through(
    lab_store: Store, late_s: int, missed: bool
) -> None:
    look(lab_store, running(1), standby(2))
    push(lab_store, 999, NOW + 1)
    at = NOW + 20 + late_s
    found = look(lab_store, ended(1, JobState.TIMEOUT, NOW - 60, NOW + 20), standby(2), now=at)
    assert found.last_missed == (at if missed else None)


def test_where_nothing_was_ever_pushed_nothing_is_missed(lab_store: Store) -> None:
    look(lab_store, running(1), standby(2))
    over = ended(1, JobState.TIMEOUT, NOW - 60, NOW + 20)
    assert look(lab_store, over, standby(2), now=NOW + HOUR) == PushTimes(None, None, None)
