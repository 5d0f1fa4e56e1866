"""Which arrays were submitted for which blocks. It outlives the command, which may be ended at any
moment: what it says was written before the array was submitted."""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mirage.lab.whole_files import write_whole
from mirage.slurm.commands.array_queue import QueuedTask

UNSURE_S = 120
"""An array of which sbatch brought no answer may still appear in the queue for this long; then it
is submitted again."""


@dataclass(slots=True)
class Submission:
    """An array that was submitted, or was about to be."""

    comment: str
    """By which the array is known in the queue."""
    blocks: tuple[str, ...]
    """The keys of the blocks, in the order of the array's tasks."""
    at: float
    """Epoch seconds."""
    array: int | None = None
    """The job id. None: sbatch has not answered, and the queue has not shown the array."""


@dataclass(slots=True)
class ArrayLedger:
    """The submissions of a work."""

    path: Path
    submissions: list[Submission] = field(default_factory=list)
    earlier: int = 0
    """The number of submissions of earlier commands, the first in the list."""

    @classmethod
    def load(cls, path: Path) -> "ArrayLedger":
        """Load the ledger. One that does not read is as good as none: blocks are made again."""
        try:
            rows = json.loads(path.read_text("utf-8"))
            submissions = [Submission(**row | {"blocks": tuple(row["blocks"])}) for row in rows]
        except (OSError, ValueError, TypeError, KeyError):
            submissions = []
        return cls(path, submissions, len(submissions))

    def save(self) -> None:
        write_whole(self.path, json.dumps([asdict(row) for row in self.submissions]))

    def begin(self, blocks: Sequence[str], at: float) -> Submission:
        """Note that an array is about to be submitted."""
        submission = Submission(f"mirage-blocks:{secrets.token_hex(8)}", tuple(blocks), at)
        self.submissions.append(submission)
        self.save()
        return submission

    def settle(self, submission: Submission, array: int) -> None:
        """Note the job id of an array."""
        submission.array = array
        self.save()

    def withdraw(self, submission: Submission) -> None:
        """Note that Slurm has refused an array."""
        self.submissions.remove(submission)
        self.save()

    def count_tries(self, block: str) -> int:
        """Count the arrays of this command that had the block and reached Slurm."""
        own = self.submissions[self.earlier :]
        return sum(s.array is not None and block in s.blocks for s in own)

    def find_last_task(self, block: str) -> str:
        """Return the job id of the last task of a block that was tried: `123_4`, or `123` of a job
        that is no array."""
        last = [s for s in self.submissions if s.array is not None and block in s.blocks][-1]
        place = f"_{last.blocks.index(block)}" if len(last.blocks) > 1 else ""
        return f"{last.array}{place}"

    def find_arrived(self, tasks: Iterable[QueuedTask]) -> list[tuple[Submission, int]]:
        """Return the submissions without an answer that the queue shows, with their job ids."""
        arrays = {task.comment: task.job for task in tasks}
        return [
            (submission, arrays[submission.comment])
            for submission in self.submissions
            if submission.array is None and submission.comment in arrays
        ]

    def find_live(self, tasks: Iterable[QueuedTask]) -> dict[str, QueuedTask]:
        """Return the blocks that wait or run, with the task of each."""
        blocks = {submission.comment: submission.blocks for submission in self.submissions}
        return {
            blocks[task.comment][task.index]: task
            for task in tasks
            if task.index < len(blocks.get(task.comment, ()))
        }

    def list_unsure(self, now: float) -> set[str]:
        """List the blocks whose array may still appear in the queue."""
        return {
            block
            for submission in self.submissions
            if submission.array is None and now - submission.at < UNSURE_S
            for block in submission.blocks
        }
