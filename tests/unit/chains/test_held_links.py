"""A hold of Mirage's that a look does not show is gone, and one that comes later is not its own."""

import pytest

from mirage.chains import link_sync as link_service
from mirage.database.chains import orders
from mirage.database.schema.engine import Store
from mirage.domain.chain import Link
from mirage.domain.job import Job, JobId, JobState
from tests.support.provision.slurm_jobs import (
    NOW,
    ended_record,
    events,
    links,
    record,
    running,
    standby,
    sync,
)

HELD = {"reason": "JobHeldUser", "priority": 0}


@pytest.fixture
def held_store(lab_store: Store) -> Store:
    """Mirage has held the standby."""
    sync(lab_store, running(1), standby(2))
    with lab_store.begin() as tx:
        orders.record_hold(tx, 1, standby(2), NOW + 1)
    return lab_store


def after(store: Store, *looks: Job) -> Link:
    for i, job in enumerate(looks, 1):
        sync(store, running(1), job, now=NOW + 60 * i)
    return links(store)[2]


def test_it_stays_while_each_look_shows_it(held_store: Store) -> None:
    assert after(held_store, standby(2, **HELD), standby(2, **HELD)).held_at == NOW + 1
    assert link_service.HOLD_GONE not in events(held_store)


@pytest.mark.parametrize(
    "shown",
    [
        standby(2, reason="Dependency", priority=1),
        standby(2, reason="JobHeldAdmin", priority=0),
        standby(2, reason="BadConstraints", priority=0),
        standby(2, reason="JobHoldMaxRequeue", priority=0),
        running(2, NOW, priority=1),
    ],
    ids=lambda job: job.reason or job.state.value,
)
def test_a_look_without_it_is_written_down_and_a_later_hold_is_not_mirages(
    held_store: Store, shown: Job
) -> None:
    assert after(held_store, standby(2, **HELD), shown).held_at is None
    assert events(held_store)[-1] == link_service.HOLD_GONE
    assert after(held_store, standby(2, **HELD)).held_at is None
    assert events(held_store).count(link_service.HOLD_GONE) == 1


def test_a_look_from_before_it_tells_nothing(held_store: Store) -> None:
    sync(held_store, running(1), standby(2, reason="Dependency", priority=1), now=NOW)
    assert links(held_store)[2].held_at == NOW + 1


def test_another_job_in_its_place_is_not_held_by_mirage(held_store: Store) -> None:
    again = standby(2, job_id=JobId(99), submit=NOW + 5, **HELD)
    assert after(held_store, again).held_at is None


def test_a_hold_of_a_job_that_runs_is_still_mirages_when_it_is_requeued(held_store: Store) -> None:
    """It came a moment too late: slurmctld keeps it for the next run."""
    held = running(2, NOW, **HELD)
    requeued = standby(2, submit=NOW + 70, **HELD)
    assert after(held_store, held, requeued).held_at == NOW + 1


def test_accounting_tells_nothing_of_holds_but_that_the_job_is_over(held_store: Store) -> None:
    sync(held_store, record(2), now=NOW + 60, accounting=True)
    assert links(held_store)[2].held_at == NOW + 1
    over = ended_record(2, JobState.CANCELLED, None, NOW + 90, **HELD)
    sync(held_store, over, now=NOW + 120, accounting=True)
    assert links(held_store)[2].held_at is None


def test_a_job_that_slurm_forgot_is_held_by_nobody(held_store: Store) -> None:
    with held_store.begin() as tx:
        link_service.close_forgotten(tx, 1, {standby(2).job_id}, NOW + 600)
    assert after(held_store, standby(2, **HELD)).held_at is None
