"""Defines the routes' context. Bootstrap or a test makes it and passes it to `create_app`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mirage.domain.access.caller import Caller
from mirage.http.allowed_hosts import Hosts
from mirage.http.response_cache import ResponseCache
from mirage.services.access.authorization import NO_ROSTER, Authorizer
from mirage.services.access.quotas import Quotas
from mirage.services.control.limit_overrides import LimitDescription
from mirage.services.control.limits import Limits
from mirage.slurm.commands.sacctmgr import Roster
from mirage.store.database.engine import Store

STALE_INTERVALS = 3
"""What Mirage knows of the cluster is stale once this many looks at its queue are overdue."""


class CommandUsage(Protocol):
    """The cost of a Slurm command since the service started."""

    @property
    def calls(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    store: Store
    cluster_id: int
    cluster_name: str
    admins: tuple[str, ...]
    """Users who may set modes, pull the kill switch, read the audit, and act on any chain."""
    clock: Callable[[], int]
    """The cluster's."""
    identify: Callable[..., Caller] | None = None
    """From a MUNGE credential and the payload that it must hold (and others that it may hold
    instead) to its maker; raises NotIdentified. None: it identifies nobody."""
    munge_without_cluster: bool = False
    """Whether older plugins' credentials, which name no cluster, are taken for what those ask."""
    read_jwt: Callable[[str], Caller] | None = None
    """From a JSON web token to its user; raises NotIdentified. None: none are taken."""
    admin_groups: tuple[str, ...] = ()
    """Unix groups whose members are admins as well."""
    roster: Callable[[], Roster] = lambda: NO_ROSTER
    """Whom Slurm has as Operator and coordinator."""
    hidden: Callable[[], frozenset[str]] = frozenset
    """What the cluster shows nobody of others: words of PrivateData."""
    partial: Callable[[], bool] = lambda: False
    """Whether others' jobs are kept from this service itself."""
    hosts: Hosts = field(default_factory=Hosts)
    """The names that it is called by."""
    root_path: str = ""
    """Where a proxy has the service below its own root, such as /mirage."""
    proxy_uids: frozenset[int] = frozenset()
    """Users by whose connections to the unix socket nobody is known."""
    owner_uid: int | None = None
    """In per-user mode: the one user who is served."""
    pushers: tuple[str, ...] = ()
    """Users who may say that jobs have ended: SlurmUser."""
    keeps_recipes: bool = False
    """Whether links of mode submit go through slurmrestd, which takes a recipe of each chain."""
    connections: int = 512
    """Had at once, streams of events among them."""
    queue_interval_s: int = 60
    policy: str = "auto"
    """Of chains that name none."""
    policies: tuple[str, ...] = ()
    """Rules that a chain may ask for."""
    model: Callable[[str], object] | None = None
    """A trained model by name; raises InputError where it cannot be used."""
    usage: Callable[[], Mapping[str, CommandUsage]] | None = None
    """By Slurm command; None where none are run."""
    limits: Limits = field(default_factory=Limits)
    """As configured."""
    limits_told: Mapping[str, LimitDescription] = field(default_factory=dict)
    """What each of them is, by name."""
    max_time_s: Mapping[str, int] = field(default_factory=dict)
    """MaxTime by partition, of those that have one, as the cluster file says."""
    models_dir: Path | None = None
    """Holds models/NAME/VERSION; None: there are none."""
    tables_dir: Path | None = None
    """Holds the episode tables that a model may be judged on; None: there are none."""
    kill_file: Path | None = None
    """The worker's: while it is there nothing acts."""
    quotas: Quotas = field(default_factory=Quotas)
    """What one user may cost the others."""
    stopwatch: Callable[[], float] = time.monotonic
    """By which that is counted: seconds that never go back."""

    remembered: ResponseCache = field(default_factory=ResponseCache)
    """Answers that many ask for."""

    @property
    def rights(self) -> Authorizer:
        return Authorizer(
            admins=self.admins,
            admin_groups=self.admin_groups,
            roster=self.roster,
            hidden=self.hidden,
        )

    @property
    def stale_after_s(self) -> int:
        return STALE_INTERVALS * self.queue_interval_s
