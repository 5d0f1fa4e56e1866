"""The one place where settings become objects."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from mirage.cluster.cli import SlurmCli
from mirage.errors import ConfigError, StoreUnavailable
from mirage.installed import data_dir, models_dir
from mirage.policy import registry
from mirage.policy.auto import Auto
from mirage.ports import Cluster, Policy, observes
from mirage.services.desk import Rules
from mirage.services.limits import Limits
from mirage.services.observing import Observer
from mirage.settings import Settings
from mirage.store import clusters, schema
from mirage.store.engine import Store
from mirage.traces.clusterfile import ClusterFile, load_cluster_file

_HOUR_S = 3600
_COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the worker and the API of one cluster share."""

    settings: Settings
    store: Store
    cluster: Cluster
    cluster_id: int


def service(settings: Settings, cluster: Cluster | None = None) -> Service:
    """Everything for one cluster; `cluster` defaults to the Slurm commands of this host.

    Raises StoreUnavailable and SchemaMismatch for a database that cannot be used.
    """
    store = open_store(settings)
    with store.begin() as tx:
        cluster_id = clusters.ensure(tx, settings.cluster.name)
    reached = cluster or SlurmCli(timeout_s=settings.cluster.command_timeout_s)
    return Service(settings=settings, store=store, cluster=reached, cluster_id=cluster_id)


def check_slurm() -> None:
    """Raise ConfigError unless the Slurm commands are on PATH."""
    absent = [name for name in _COMMANDS if shutil.which(name) is None]
    if absent:
        raise ConfigError(
            "PATH",
            [f"no {', '.join(absent)}: run on a host with Slurm's client commands, or set PATH"],
        )


def open_store(settings: Settings) -> Store:
    """The database, checked to be of this program's schema."""
    if _in_state_dir(settings) and not settings.service.state_dir.is_dir():
        raise StoreUnavailable(
            f"the state directory {settings.service.state_dir} does not exist: "
            "set service.state_dir, or make it with `mirage db upgrade`"
        )
    store = Store(settings.database_url)
    store.check_schema()
    return store


def rules(service: Service) -> Rules:
    """Who decides. Raises InputError for a policy or a cluster file that cannot be used."""
    provision = service.settings.provision
    found = policies(service.settings)
    found(provision.policy)
    return Rules(
        policy=found,
        default=provision.policy,
        observer=_observer(service),
        accrues_always=_accrues_always(service),
        limits=Limits(
            max_lead_s=round(provision.max_lead_h * _HOUR_S),
            min_gain_s=provision.min_gain_s,
            account_overlap_node_h=provision.account_overlap_node_h,
            cluster_overlap_node_h=provision.cluster_overlap_node_h,
            allow_pin=provision.allow_pin,
            max_touches=provision.max_touches,
            demote_after=provision.demote_after,
            demote_error_s=provision.demote_error_h * _HOUR_S,
        ),
    )


def policies(settings: Settings) -> Callable[[str], Policy]:
    """By name; models are looked for where the settings say."""
    return partial(registry.policy, under=settings.provision.models_dir or models_dir())


def cluster_file(settings: Settings) -> ClusterFile | None:
    """Raises ConfigError for one that does not read."""
    return None if settings.cluster.file is None else load_cluster_file(settings.cluster.file)


def check(settings: Settings) -> list[str]:
    """What is not wrong and may not be meant, a sentence each.

    Raises InputError for a policy or a cluster file that cannot be used.
    """
    policy = policies(settings)(settings.provision.policy)
    folder = settings.provision.models_dir
    if folder is not None and not folder.is_dir():
        return [f"provision.models_dir is no folder, so there are no models: {folder}"]
    # `auto` is what nobody has to ask for, and has rules for that: `mirage doctor` tells of it.
    alone = observes(policy) and not isinstance(policy, Auto)
    if cluster_file(settings) is None and alone:
        return [
            f"{policy.name} is shown nothing, and rules decide instead: set cluster.file "
            "(`mirage cluster import` writes one)"
        ]
    return []


def _accrues_always(service: Service) -> Callable[[], bool]:
    """As Slurm says, asked until there is an answer; elsewhere as the cluster file says."""
    cluster, file = service.cluster, cluster_file(service.settings)
    if isinstance(cluster, SlurmCli):
        return cache(lambda: cluster.site_config().accrues_always)
    return lambda: file is not None and file.params.accrue_always


def _observer(service: Service) -> Observer | None:
    file = cluster_file(service.settings)
    if file is None:
        return None
    cluster = service.cluster
    asked = cluster.site_config if isinstance(cluster, SlurmCli) else None
    return Observer(
        params=file.params,
        node_names=file.node_names,
        # Asked until there is an answer.
        hides_jobs=cache(lambda: asked is not None and "jobs" in asked().private_data),
    )


def upgrade_database(settings: Settings) -> None:
    """Make the database, or bring it to this program's schema."""
    if _in_state_dir(settings):
        make_state_dir(settings.service.state_dir)
    schema.upgrade(settings.database_url, data_dir("migrations"))


def _in_state_dir(settings: Settings) -> bool:
    return settings.database_url.startswith(f"sqlite:///{settings.service.state_dir}/")


def make_state_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(
            f"state directory {path} cannot be made: {error.strerror}"
        ) from error
