"""Rows of squeue as it prints them under Mirage's own format, and what a tick makes of them."""

from mirage.chains import link_sync as link_service
from mirage.chains.lifecycle import advance_chains
from mirage.database.schema.engine import Store
from mirage.domain.snapshot import Queue
from mirage.slurm.commands import squeue
from mirage.slurm.text import delimited_rows
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.slurm_jobs import ALICE, CHAIN, NOW
from tests.support.slurm.printed_jobs import JobValues, print_queue

ROW = JobValues(
    job_id=11,
    account="ml",
    qos="normal",
    reason="Priority",
    priority=4294901759,
    submit=NOW - 100,
    eligible=NOW - 100,
    start=NOW + 500,
    end=NOW + 4100,
    cpus=8,
    comment=f"mirage:{CHAIN}:1",
).build_queue_cells()


def printed(**cells: str) -> str:
    """One row as squeue prints it under our format."""
    return print_queue([ROW | cells], delimited_rows.SEPARATOR)


def looked(store: Store, answer: str, now: int = NOW) -> Queue:
    """One look at the queue, followed and concluded from as the worker does."""
    queue = squeue.parse_queue(answer, now)
    with store.begin() as tx:
        link_service.sync_links(tx, 1, link_service.list_marked_jobs(queue), now, queue=queue)
        advance_chains(tx, 1, now)
    return queue


def show_two_links(
    commands: FakeCommands, comment: str, dependency: str, before_the_move: str | None = None
) -> None:
    """Have squeue print a link with 55 minutes left and its standby.

    `before_the_move`: the standby's dependency when squeue is asked about that job alone; None: as
    in the queue.
    """
    words = f"{comment} " if comment else ""
    mine = {"UserID": str(ALICE)}
    first = printed(
        **mine,
        State="RUNNING",
        Reason="None",
        StartTime=str(NOW - 300),
        EndTime=str(NOW + 3300),
        NodeList="gpu01",
        Comment=f"{words}mirage:{CHAIN}:1",
    )
    second = printed(
        **mine,
        JobID="12",
        Reason="Dependency",
        StartTime="N/A",
        EndTime="N/A",
        Dependency=dependency,
        Comment=f"{words}mirage:{CHAIN}:2",
    )
    text = (first + second).replace(delimited_rows.SEPARATOR, "|")
    newest = dependency if before_the_move is None else before_the_move
    alone = f"12|{ALICE}||PENDING|Dependency|5|{newest}|\n"
    commands.answers("squeue", text, by_argument={"--jobs=12": alone})
