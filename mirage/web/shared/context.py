"""Defines the context of all routes. `service.api_wiring` or a test passes it to `create_app`."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mirage.chains.notices.notices import Channel
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller
from mirage.provision.cluster_observer import COMPILING
from mirage.provision.control.limit_overrides import LimitDescription
from mirage.provision.control.limits import Limits
from mirage.provision.learning.model_promoter import PromotionMode
from mirage.slurm.commands.sacctmgr import NO_ROSTER, Roster
from mirage.web.identity.authorization import Authorizer
from mirage.web.identity.quotas import Quotas
from mirage.web.shared.allowed_hosts import Hosts
from mirage.web.shared.response_cache import ResponseCache

STALE_INTERVALS = 3
"""The data about the cluster is stale once this many polls of the queue are overdue."""


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
    """What every route may use: the database, settings, and functions that know Slurm's answers."""

    store: Store
    cluster_id: int
    cluster_name: str
    admins: tuple[str, ...]
    """Users who may set modes, pull the kill switch, read the audit, and act on any chain."""
    clock: Callable[[], int]
    """Returns the cluster's time in epoch seconds."""
    identify: Callable[..., Caller] | None = None
    """Returns the maker of a MUNGE credential; raises NotIdentified.

    Its arguments are the credential and the payloads that the credential may hold. None: the
    service accepts no MUNGE credentials."""
    identify_sack: Callable[[str, str], Caller] | None = None
    """The same for a credential of Slurm's own socket, and the one payload that it may hold."""
    munge_without_cluster: bool = False
    """Whether the credentials of older plugins, which name no cluster, are accepted."""
    read_jwt: Callable[[str], Caller] | None = None
    """Returns the user of a JSON web token; raises NotIdentified. None: no tokens are accepted."""
    admin_groups: tuple[str, ...] = ()
    """Unix groups whose members are admins as well."""
    roster: Callable[[], Roster] = lambda: NO_ROSTER
    """Returns Slurm's Operators and coordinators."""
    hidden: Callable[[], frozenset[str]] = frozenset
    """Returns the words of PrivateData: what the cluster hides from other users."""
    partial: Callable[[], bool] = lambda: False
    """Returns whether the cluster hides others' jobs from this service itself."""
    hosts: Hosts = field(default_factory=Hosts)
    """The host names to which the service answers."""
    root_path: str = ""
    """The path below which a proxy shows the service, such as /mirage."""
    proxy_uids: frozenset[int] = frozenset()
    """Users of proxies: their connections to the unix socket identify nobody."""
    owner_uid: int | None = None
    """In per-user mode: the one user who is served."""
    pushers: tuple[str, ...] = ()
    """Users who may report that jobs have ended: SlurmUser."""
    connections: int = 512
    """The most connections at once, streams of events included."""
    queue_interval_s: int = 60
    policy: str = "auto"
    """The policy of chains that name none."""
    policies: tuple[str, ...] = ()
    """The rules that a chain may ask for."""
    model: Callable[[str], object] | None = None
    """Returns a trained model by name; raises InputError if the model cannot be used."""
    usage: Callable[[], Mapping[str, CommandUsage]] | None = None
    """Returns the cost by Slurm command. None: this service runs no commands."""
    limits: Limits = field(default_factory=Limits)
    """The limits as configured."""
    limit_descriptions: Mapping[str, LimitDescription] = field(default_factory=dict)
    """The description of each limit, by name."""
    max_time_s: Mapping[str, int] = field(default_factory=dict)
    """MaxTime in seconds by partition, from the cluster file; without partitions that have none."""
    models_dir: Path | None = None
    """The folder of models/NAME/VERSION; None: there is none."""
    tables_dir: Path | None = None
    """The folder of the episode tables that models are compared on; None: there is none."""
    is_compiled: Callable[[], bool] = lambda: True
    """Returns whether the simulator is compiled. Until then neither twin nor models decide."""
    promotion_mode: PromotionMode = PromotionMode.ASK
    """The setting `learn.promote`."""
    notice_channels: tuple[Channel, ...] = ()
    """Where notices are sent."""
    kill_file: Path | None = None
    """The worker's kill file: while it exists, Mirage changes nothing in Slurm."""
    quotas: Quotas = field(default_factory=Quotas)
    """How much of the service one user may use."""
    stopwatch: Callable[[], float] = time.monotonic
    """The clock of the quotas: seconds that never go back."""

    response_cache: ResponseCache = field(default_factory=ResponseCache)
    """The answers that many callers ask for."""

    @property
    def rights(self) -> Authorizer:
        return Authorizer(
            admins=self.admins,
            admin_groups=self.admin_groups,
            roster=self.roster,
            hidden=self.hidden,
        )

    @property
    def shortcoming(self) -> str:
        """Return a sentence about what the service cannot do yet; empty if it can do everything."""
        if self.is_compiled():
            return ""
        return f"{COMPILING}: until then rules decide, without the twin and without models"

    @property
    def stale_after_s(self) -> int:
        return STALE_INTERVALS * self.queue_interval_s
