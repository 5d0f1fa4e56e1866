"""What squeue shows of the user's own tasks."""

from mirage.slurm.commands import array_queue
from mirage.slurm.commands.array_queue import QueuedTask


def test_tasks_of_arrays_and_single_jobs_read() -> None:
    shown = "12_0|Priority|mirage-blocks:ab\n12_10|None|mirage-blocks:ab\n13|None|\n"
    assert array_queue.parse_tasks(shown) == [
        QueuedTask(12, 0, "Priority", "mirage-blocks:ab"),
        QueuedTask(12, 10, "None", "mirage-blocks:ab"),
        QueuedTask(13, 0, "None", ""),
    ]


def test_a_row_that_does_not_read_costs_that_row() -> None:
    shown = "12+1|None|x\nof a comment\n14|Resources|two | bars\n"
    assert array_queue.parse_tasks(shown) == [QueuedTask(14, 0, "Resources", "two | bars")]
