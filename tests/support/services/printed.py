"""Rows of squeue as it prints them under Mirage's own format, and what a tick makes of them."""

from mirage.domain.snapshot import Queue
from mirage.services.chains import link_sync as link_service
from mirage.services.chains.lifecycle import advance_chains
from mirage.slurm.commands import squeue
from mirage.slurm.text import delimited_rows
from mirage.store.database.engine import Store
from tests.support.services.slurm_jobs import CHAIN, NOW

ROW = {
    "JobID": "11",
    "ArrayTaskID": "N/A",
    "HetJobID": "N/A",
    "UserName": "alice",
    "UserID": "1001",
    "Account": "ml",
    "Partition": "gpu",
    "QOS": "normal",
    "State": "PENDING",
    "Reason": "Priority",
    "PriorityLong": "4294901759",
    "SubmitTime": str(NOW - 100),
    "EligibleTime": str(NOW - 100),
    "StartTime": str(NOW + 500),
    "EndTime": str(NOW + 4100),
    "TimeLimit": "1:00:00",
    "NumNodes": "1",
    "NumCPUs": "8",
    "tres-alloc": "cpu=8,node=1",
    "tres-per-node": "N/A",
    "tres-per-job": "N/A",
    "Dependency": "(null)",
    "NodeList": "",
    "Name": "train",
    "Comment": f"mirage:{CHAIN}:1",
}


def printed(**cells: str) -> str:
    """One row as squeue prints it under our format."""
    row = ROW | cells
    return "".join(f"{row[name]}{delimited_rows.SEPARATOR}" for name in squeue.FIELDS) + "\n"


def looked(store: Store, answer: str, now: int = NOW) -> Queue:
    """One look at the queue, followed and concluded from as the worker does."""
    queue = squeue.parse_queue(answer, now)
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), now, queue=queue)
        advance_chains(tx, 1, now)
    return queue
