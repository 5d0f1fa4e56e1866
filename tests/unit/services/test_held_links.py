"""A hold of Mirage's that a look does not show is gone, and one that comes later is not its own."""

import pytest

from mirage.domain.chain import Link
from mirage.domain.job import Job, JobId, JobState
from mirage.services.chains import link_sync as link_service
from mirage.store.chains import holds
from mirage.store.database.engine import Store
from mirage.store.operations import clusters
from tests.support.services.slurm_jobs import NOW, ended, events, links, running, standby, sync

HELD = {"reason": "JobHeldUser", "priority": 0}


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """Mirage has held the standby."""
    with sqlite_store.begin() as tx:
        assert clusters.ensure_cluster(tx, "lab") == 1
    sync(sqlite_store, running(1), standby(2))
    with sqlite_store.begin() as tx:
        holds.record_hold(tx, 1, standby(2), NOW + 1)
    return sqlite_store


def after(store: Store, *looks: Job) -> Link:
    for i, job in enumerate(looks, 1):
        sync(store, running(1), job, now=NOW + 60 * i)
    return links(store)[2]


def test_it_stays_while_each_look_shows_it(store: Store) -> None:
    assert after(store, standby(2, **HELD), standby(2, **HELD)).held_at == NOW + 1
    assert link_service.HOLD_GONE not in events(store)


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
    store: Store, shown: Job
) -> None:
    assert after(store, standby(2, **HELD), shown).held_at is None
    assert events(store)[-1] == link_service.HOLD_GONE
    assert after(store, standby(2, **HELD)).held_at is None
    assert events(store).count(link_service.HOLD_GONE) == 1


def test_a_look_from_before_it_tells_nothing(store: Store) -> None:
    sync(store, running(1), standby(2, reason="Dependency", priority=1), now=NOW)
    assert links(store)[2].held_at == NOW + 1


def test_another_job_in_its_place_is_not_held_by_mirage(store: Store) -> None:
    again = standby(2, job_id=JobId(99), submit=NOW + 5, **HELD)
    assert after(store, again).held_at is None


def test_a_hold_of_a_job_that_runs_is_still_mirages_when_it_is_requeued(store: Store) -> None:
    """It came a moment too late: slurmctld keeps it for the next run."""
    held = running(2, NOW, **HELD)
    requeued = standby(2, submit=NOW + 70, **HELD)
    assert after(store, held, requeued).held_at == NOW + 1


def test_accounting_tells_nothing_of_holds_but_that_the_job_is_over(store: Store) -> None:
    sync(store, standby(2, reason="None"), now=NOW + 60, accounting=True)
    assert links(store)[2].held_at == NOW + 1
    over = ended(2, JobState.CANCELLED, None, NOW + 90, **HELD)
    sync(store, over, now=NOW + 120, accounting=True)
    assert links(store)[2].held_at is None


def test_a_job_that_slurm_forgot_is_held_by_nobody(store: Store) -> None:
    with store.begin() as tx:
        link_service.close_forgotten(tx, 1, {standby(2).job_id}, NOW + 600)
    assert after(store, standby(2, **HELD)).held_at is None
