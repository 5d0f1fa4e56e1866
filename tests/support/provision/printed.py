"""Prints rows of squeue in Mirage's format, and updates chains by them as a tick does."""

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


def print_row(**cells: str) -> str:
    """Return one row as squeue prints it in Mirage's format; `cells` replace those of ROW."""
    return print_queue([ROW | cells], delimited_rows.SEPARATOR)


def follow_queue(store: Store, answer: str, now: int = NOW) -> Queue:
    """Update links and chains by squeue's answer, as the worker does; return the queue."""
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
    prefix = f"{comment} " if comment else ""
    owner = {"UserID": str(ALICE)}
    first = print_row(
        **owner,
        State="RUNNING",
        Reason="None",
        StartTime=str(NOW - 300),
        EndTime=str(NOW + 3300),
        NodeList="gpu01",
        Comment=f"{prefix}mirage:{CHAIN}:1",
    )
    second = print_row(
        **owner,
        JobID="12",
        Reason="Dependency",
        StartTime="N/A",
        EndTime="N/A",
        Dependency=dependency,
        Comment=f"{prefix}mirage:{CHAIN}:2",
    )
    text = (first + second).replace(delimited_rows.SEPARATOR, "|")
    dependency_now = dependency if before_the_move is None else before_the_move
    standby_alone = f"12|{ALICE}||PENDING|Dependency|5|{dependency_now}|\n"
    commands.answers("squeue", text, by_argument={"--jobs=12": standby_alone})
