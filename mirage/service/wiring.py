"""Builds the service's objects from the settings, in one place."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from mirage.config.schema import collect_specs
from mirage.config.settings import Settings
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller, ClaimUse
from mirage.domain.callers.this_host import is_this_host
from mirage.domain.ports import Cluster, Policy
from mirage.domain.time_units import HOUR_S
from mirage.errors import ClusterUnavailable, ConfigError
from mirage.history.cluster_files.reader import ClusterFile, load_cluster_file
from mirage.policies import registry
from mirage.policies.auto_policy import AutoPolicy
from mirage.provision.cluster_observer import Observer
from mirage.provision.control.limit_overrides import ADJUSTABLE_LIMITS, LimitDescription
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.reports.slurmctld_load import DiagnosisReader
from mirage.service.database_setup import open_store
from mirage.shipped_files import load_client_module
from mirage.slurm.clients.auth import sack
from mirage.slurm.clients.call_stats import CallTotals
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.permissions import SlurmPermissions, build_permissions
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.clients.restd.token import TokenFile
from mirage.slurm.commands.scontrol import SiteConfig

_COMMANDS = ("squeue", "sinfo", "sacct", "scontrol", "scancel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The objects that the worker and the API of one cluster share."""

    settings: Settings
    store: Store
    cluster: Cluster
    cluster_id: int


def build_service(
    settings: Settings, cluster: Cluster | None = None, store: Store | None = None
) -> Service:
    """Build everything for one cluster.

    `cluster` and `store` default to the Slurm and the database that the settings name.

    Raises StoreUnavailable and SchemaMismatch for a database that cannot be used.
    """
    store = store or open_store(settings)
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
    cluster = cluster or build_slurm_client(settings)
    return Service(settings=settings, store=store, cluster=cluster, cluster_id=cluster_id)


def build_slurm_client(settings: Settings) -> SlurmCli | Slurmrestd:
    """Build the client of Slurm that `cluster.transport` names."""
    if settings.cluster.transport == "cli":
        return SlurmCli(timeout_s=settings.cluster.command_timeout_s)
    return build_slurmrestd_client(settings)


def build_slurmrestd_client(settings: Settings) -> Slurmrestd:
    """Return a client that uses scontrol for what slurmrestd cannot do, if it is on PATH."""
    timeout_s = settings.cluster.command_timeout_s
    token_file = build_token_file(settings)
    return Slurmrestd(
        RestHttp(
            settings.cluster.rest_url or "",
            timeout_s=timeout_s,
            identity=None if token_file is None else token_file.load_token,
        ),
        commands=None if _list_missing_commands() else SlurmCli(timeout_s=timeout_s),
    )


def build_token_file(settings: Settings) -> TokenFile | None:
    """Return the service's token for slurmrestd; None if the socket identifies the service."""
    cluster = settings.cluster
    if cluster.rest_token_file is None:
        return None
    return TokenFile(cluster.rest_token_file, user=cluster.rest_user)


def get_site_config_reader(cluster: Cluster) -> Callable[[], SiteConfig] | None:
    """Return a function that asks for Slurm's own settings; None if nobody can tell them."""
    commands = cluster.commands if isinstance(cluster, Slurmrestd) else cluster
    return commands.fetch_site_config if isinstance(commands, SlurmCli) else None


def get_usage_reader(cluster: Cluster) -> Callable[[], Mapping[str, CallTotals]] | None:
    """Return a function that reads the cost of Slurm calls; None if a cluster costs nothing."""
    return cluster.get_usage if isinstance(cluster, SlurmCli | Slurmrestd) else None


def get_diagnosis_reader(cluster: Cluster) -> DiagnosisReader | None:
    """Return a function that asks slurmctld which calls it received; None without slurmctld."""
    return cluster.fetch_diagnosis if isinstance(cluster, SlurmCli | Slurmrestd) else None


def get_forgery_reader(cluster: Cluster) -> Callable[[], list[str]]:
    """Return a function that takes the alarms about forged answers since its last call.

    An alarm is a sentence about text in one of Slurm's answers that Slurm did not write.
    """
    return cluster.alarms.take_alarms if isinstance(cluster, SlurmCli | Slurmrestd) else list


def _list_missing_commands() -> list[str]:
    return [name for name in _COMMANDS if shutil.which(name) is None]


def check_slurm_commands(settings: Settings) -> None:
    """Raise ConfigError unless the Slurm commands that the settings need are on PATH."""
    missing = _list_missing_commands() if settings.cluster.transport == "cli" else []
    if missing:
        raise ConfigError(
            "PATH",
            [f"no {', '.join(missing)}: run on a host with Slurm's client commands, or set PATH"],
        )


def build_decision_settings(service: Service) -> DecisionSettings:
    """Return what a tick decides by. Raises InputError for an unusable policy or cluster file."""
    provision = service.settings.provision
    get_policy = get_policy_loader(service.settings)
    get_policy(provision.policy)
    return DecisionSettings(
        get_policy=get_policy,
        default_policy=provision.policy,
        observer=_build_observer(service),
        accrues_always=_build_accrual_check(service),
        hides_jobs=_build_privacy_check(service.cluster),
        limits=build_limits(service.settings),
    )


def build_limits(settings: Settings) -> Limits:
    """Return the configured limits; an admin may have set others since (`limit_overrides`)."""
    provision, user_h = settings.provision, settings.provision.user_overlap_node_h
    shared_h = min(provision.account_overlap_node_h, provision.cluster_overlap_node_h)
    return Limits(
        max_lead_s=round(provision.max_lead_h * HOUR_S),
        min_gain_s=provision.min_gain_s,
        user_overlap_node_h=shared_h / 2 if user_h is None else user_h,
        account_overlap_node_h=provision.account_overlap_node_h,
        cluster_overlap_node_h=provision.cluster_overlap_node_h,
        replan_gain_h=provision.replan_gain,
        allow_pin=provision.allow_pin,
        max_touches=provision.max_touches,
        max_returns=provision.max_returns,
        max_chains_per_user=provision.max_chains_per_user,
        demote_after=provision.demote_after,
        demote_error_s=provision.demote_error_h * HOUR_S,
    )


def describe_limits(settings: Settings) -> dict[str, LimitDescription]:
    """Describe each limit by name; its meaning comes from settings.py."""
    specs, configured = collect_specs(Settings), settings.provision.model_fields_set
    return {
        name: LimitDescription(
            unit=specs[f"provision.{name}"].unit,
            meaning=specs[f"provision.{name}"].meaning,
            origin="configuration" if name in configured else "default",
        )
        for name in ADJUSTABLE_LIMITS
    }


def get_tables_dir(settings: Settings) -> Path:
    return settings.provision.tables_dir or settings.service.state_dir / "tables"


def get_policy_loader(settings: Settings) -> Callable[[str], Policy]:
    """Return a function that loads a policy by name, with models from the configured folder."""
    return partial(registry.get_policy, under=settings.models_dir)


def get_cluster_file(settings: Settings) -> ClusterFile | None:
    """Load the cluster file of the settings, if any. Raises ConfigError for a faulty file."""
    return None if settings.cluster.file is None else load_cluster_file(settings.cluster.file)


def get_max_time_s(settings: Settings) -> dict[str, int]:
    """Return the maximum times of partitions that have one; empty without a cluster file."""
    file = get_cluster_file(settings)
    return {} if file is None else file.get_max_time_s()


def check_settings(settings: Settings) -> list[str]:
    """List the settings that are valid but may be unintended, a sentence each.

    Raises InputError for settings that cannot be used.
    """
    file = get_cluster_file(settings)
    warnings = [*_check_slurmrestd(settings), *_check_policy(settings)]
    return warnings if file is None else [*warnings, *file.warnings]


def _check_slurmrestd(settings: Settings) -> list[str]:
    token_file, url = settings.cluster.rest_token_file, urlsplit(settings.cluster.rest_url or "")
    if token_file and url.scheme == "http" and not is_this_host(url.hostname or ""):
        return [f"the token in {token_file} goes to {url.hostname} unencrypted: use https"]
    return []


def _check_policy(settings: Settings) -> list[str]:
    policy = get_policy_loader(settings)(settings.provision.policy)
    folder = settings.provision.models_dir
    if folder is not None and not folder.is_dir():
        return [f"provision.models_dir is not a folder, so there are no models: {folder}"]
    # `auto`, the default, lets its rules decide then: `mirage doctor` reports that.
    needs_file = policy.needs.observation and not isinstance(policy, AutoPolicy)
    if get_cluster_file(settings) is None and needs_file:
        return [
            f"{policy.name} gets no observations, so rules decide instead: set cluster.file "
            "(`mirage cluster import` writes one)"
        ]
    return []


def _build_accrual_check(service: Service) -> Callable[[], bool]:
    """Return a function that says whether ACCRUE_ALWAYS is on.

    Slurm is asked until it answers. If there is no Slurm to ask, the cluster file decides.
    """
    cluster, file = service.cluster, get_cluster_file(service.settings)
    if read_site_config := get_site_config_reader(cluster):
        return cache(lambda: read_site_config().accrues_always)
    return lambda: file is not None and file.params.accrue_always


def _build_observer(service: Service) -> Observer | None:
    file = get_cluster_file(service.settings)
    if file is None:
        return None
    return Observer(
        params=file.params,
        node_names=file.node_names,
        hides_jobs=_build_privacy_check(service.cluster),
    )


def _build_privacy_check(cluster: Cluster) -> Callable[[], bool]:
    """Return a function that says whether PrivateData hides jobs. Slurm is asked until it
    answers. If nobody can tell, slurmrestd counts as hiding them."""
    if read_site_config := get_site_config_reader(cluster):
        return cache(lambda: "jobs" in read_site_config().private_data)
    return lambda: isinstance(cluster, Slurmrestd)


def build_slurm_permissions(service: Service) -> SlurmPermissions:
    """Build Slurm's permissions. With slurmrestd, the service acts as the user of its token."""
    auth, token_file = service.settings.auth, build_token_file(service.settings)
    by_token = token_file is not None and isinstance(service.cluster, Slurmrestd)
    get_user = (
        (lambda: token_file.load_token().user) if token_file is not None and by_token else None
    )
    return build_permissions(service.cluster, auth.hide, auth.slurm_s, get_user)


def build_sack_verifier(
    cluster: str, claim_use: ClaimUse, *, started_at: int = 0
) -> sack.SackVerifier:
    """Build what identifies callers by credentials of Slurm's own socket on this host.

    `cluster`: its name. `claim_use`, `started_at`: see SackVerifier.
    """
    plugin = load_client_module("client.sack")
    environ = os.environ | {"MIRAGE_CLUSTER_NAME": cluster}

    def vouch(credential: str) -> bool:
        try:
            return bool(plugin.verify_credential(credential, environ, sack.TIMEOUT_S))
        except plugin.Unreachable as error:
            raise ClusterUnavailable(f"no credential can be checked: {error}") from error

    return sack.SackVerifier(
        vouch=vouch,
        claim_use=claim_use,
        cluster=cluster,
        uid=os.geteuid(),
        started_at=started_at,
    )


def build_jwt_reader(settings: Settings) -> Callable[[str], Caller] | None:
    """Return a function that reads Slurm's JSON web tokens; None where none are accepted.

    Raises ConfigError for keys that cannot be used.
    """
    auth = settings.auth
    if auth.jwt_key_file is None and auth.jwks_file is None and auth.jwks_url is None:
        return None
    try:
        from mirage.slurm.clients.auth import slurm_jwt  # noqa: PLC0415 - joserfc is an extra
    except ImportError as error:
        raise ConfigError(
            "auth", ["JSON web tokens need joserfc: pip install 'mirage-provisioner[jwt]'"]
        ) from error
    checks = {"audience": auth.jwt_audience, "max_lifetime_s": auth.jwt_max_lifetime_s}
    if auth.jwt_key_file is not None:
        return slurm_jwt.load_hs256(auth.jwt_key_file, **checks).authenticate_caller
    if auth.jwks_file is not None:
        return slurm_jwt.load_jwks_file(auth.jwks_file, **checks).authenticate_caller
    return slurm_jwt.load_jwks_url(str(auth.jwks_url), **checks).authenticate_caller
