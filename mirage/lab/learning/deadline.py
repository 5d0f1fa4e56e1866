"""Makes blocks until the budget of time is spent, also while jobs wait in a queue."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirage.lab.blocks.block_executor import BlockExecutor, MakerFactory, Part, PointsCallback
from mirage.lab.learning.learn_request import BudgetSpent


@dataclass(frozen=True, slots=True)
class UntilDeadline:
    """An executor that waits for jobs elsewhere until `deadline` (`time.monotonic`), and then
    raises BudgetSpent. Work of this machine is planned to fit, and goes on."""

    executor: BlockExecutor
    deadline: float

    @property
    def is_local(self) -> bool:
        return self.executor.is_local

    def make_blocks(
        self,
        create_maker: MakerFactory[Part],
        missing_blocks: Mapping[Path, Part],
        on_points: PointsCallback,
        *,
        may_use_gpus: bool = False,
    ) -> None:
        def check_time(count: int) -> None:
            on_points(count)
            if not self.is_local and time.monotonic() > self.deadline:
                raise BudgetSpent("The budget of time is spent, and the next run goes on.")

        self.executor.make_blocks(
            create_maker, missing_blocks, check_time, may_use_gpus=may_use_gpus
        )
