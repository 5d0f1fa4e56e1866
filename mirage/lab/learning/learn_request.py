"""What a run of learning is asked for, and the two ends of it that are no faults."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from mirage.chains.notices.notices import Channel
from mirage.config.settings import LearnSettings
from mirage.database.schema.engine import Store
from mirage.errors import MirageError
from mirage.lab.blocks.block_executor import BlockExecutor
from mirage.lab.learning.run_budget import Budget
from mirage.lab.learning.run_folder import RunFolder
from mirage.lab.training.trainers import FamilyName
from mirage.policies import site_models
from mirage.simulator.types import Params


class NothingToLearn(MirageError):
    """There is too little to learn from. That is no fault, and passes by itself or by a change of
    the site's; the message is a sentence."""


class BudgetSpent(MirageError):
    """The budget of time is spent. The next run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest:
    """What is learned from, by which rules, and where results come."""

    cluster: str
    """The cluster's name in the database."""
    store: Store
    params: Params
    folder: RunFolder
    models: Path
    """The folder of models that the service decides with."""
    rules: LearnSettings
    budget: Budget
    executor: BlockExecutor
    """Who makes the tables, and trains."""
    now: int
    """Epoch seconds."""
    is_forced: bool = False
    families: tuple[FamilyName, ...] = ()
    """The kinds of model that are trained; empty: all whose packages are installed."""
    channels: tuple[Channel, ...] = ()
    """Where notices about models are sent."""
    made_at: float = field(default_factory=time.monotonic)
    """When the request was made, by `time.monotonic`."""

    def read_clock(self) -> int:
        """Return the time in epoch seconds, as `now` goes on: a simulated site has its own."""
        return self.now + int(time.monotonic() - self.made_at)

    @property
    def site_name(self) -> str:
        """The name of the site's models: site-CLUSTER."""
        return site_models.format_site_name(self.cluster)

    @property
    def champion(self) -> str | None:
        """The model of the site that is in use; None: there is none."""
        return site_models.find_champion(self.cluster, self.models)
