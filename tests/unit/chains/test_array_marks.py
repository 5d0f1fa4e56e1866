"""An array whose comment has a mark is no link: from what squeue prints to what the store has."""

import pytest

from mirage.chains import link_sync as link_service
from mirage.database.schema.engine import Store
from mirage.domain.job import JobId
from mirage.slurm.commands import squeue
from tests.support.provision.printed import print_row
from tests.support.provision.slurm_jobs import NOW, links


def look(store: Store, answer: str) -> dict[int, JobId]:
    queue = squeue.parse_queue(answer, NOW)
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), NOW, queue=queue)
    return {index: link.job_id for index, link in links(store).items()}


@pytest.mark.parametrize("tasks", ["1-20", "1-20%4", "3,7", "0-31:2", "20", "0"])
def test_a_pending_array_with_a_mark_is_no_link(lab_store: Store, tasks: str) -> None:
    assert look(lab_store, print_row(ArrayTaskID=tasks)) == {}


def test_the_same_job_without_tasks_is_one(lab_store: Store) -> None:
    assert look(lab_store, print_row()) == {1: JobId(11)}
    (link,) = links(lab_store).values()
    assert (link.start, link.planned_start) == (None, NOW + 500)
