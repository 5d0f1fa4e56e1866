"""Makes blocks until the budget of time is spent, also while jobs wait in a queue."""

import time
from dataclasses import dataclass

from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork, Part, PointsCallback
from mirage.lab.learning.learn_request import BudgetSpent


@dataclass(frozen=True, slots=True)
class UntilDeadline:
    """An executor that works until `deadline` (`time.monotonic`), and then raises BudgetSpent.
    Finished blocks are kept, and jobs elsewhere go on."""

    executor: BlockExecutor
    deadline: float

    @property
    def is_local(self) -> bool:
        return self.executor.is_local

    def make_blocks(self, work: BlockWork[Part], on_points: PointsCallback) -> None:
        def check_time(count: int) -> None:
            on_points(count)
            if time.monotonic() > self.deadline:
                raise BudgetSpent("The budget of time is spent, and the next run goes on.")

        self.executor.make_blocks(work, check_time)
