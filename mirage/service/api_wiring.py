"""Builds the context of REST's routes and of the pages from a service."""

import time
from collections.abc import Callable

from mirage.config.settings import ServiceSettings
from mirage.domain.callers.caller import Caller
from mirage.policies import registry
from mirage.provision.control import kill_switch
from mirage.provision.learning.model_promoter import PromotionMode
from mirage.service import notice_channels, wiring
from mirage.service.wiring import Service
from mirage.slurm.clients.auth import munge
from mirage.slurm.clients.permissions import SlurmPermissions
from mirage.web.identity.credential_use import (
    UsedCredentials,
    claim_in_database,
    refuse_second_use,
)
from mirage.web.identity.quotas import Quotas
from mirage.web.shared.allowed_hosts import Hosts, build_hosts, list_machine_names
from mirage.web.shared.context import ApiContext
from mirage.web.shared.server import admission


def build_api_context(
    service: Service,
    *,
    owner_uid: int | None = None,
    permissions: SlurmPermissions | None = None,
    connections: int | None = None,
    is_compiled: Callable[[], bool] = lambda: True,
) -> ApiContext:
    """Build the context of the routes.

    The caller keeps `permissions` up to date. `connections`: how many may be open at once.
    `is_compiled`: whether the simulator is compiled.
    """
    settings = service.settings
    permissions = permissions or wiring.build_slurm_permissions(service)
    return ApiContext(
        store=service.store,
        cluster_id=service.cluster_id,
        cluster_name=settings.cluster.name,
        admins=settings.service.admins,
        clock=service.cluster.read_clock,
        identify=_build_identify(service),
        identify_sack=_build_identify_sack(service),
        munge_without_cluster=settings.auth.munge_without_cluster,
        pushers=settings.polling.pushers,
        read_jwt=wiring.build_jwt_reader(settings),
        admin_groups=settings.auth.admin_groups,
        roster=permissions.roster,
        hidden=permissions.hidden,
        partial=permissions.partial,
        hosts=_build_hosts(settings.service),
        root_path=settings.service.root_path,
        proxy_uids=admission.resolve_proxies(settings.service.proxies).uids,
        owner_uid=owner_uid,
        connections=connections or settings.connections.most,
        queue_interval_s=settings.polling.queue_s,
        policy=settings.provision.policy,
        policies=registry.NAMES,
        model=wiring.get_policy_loader(settings),
        usage=wiring.get_usage_reader(service.cluster),
        limits=wiring.build_limits(settings),
        limit_descriptions=wiring.describe_limits(settings),
        max_time_s=wiring.get_max_time_s(settings),
        models_dir=settings.models_dir,
        tables_dir=wiring.get_tables_dir(settings),
        is_compiled=is_compiled,
        promotion_mode=PromotionMode(settings.learn.promote),
        notice_channels=notice_channels.list_channels(settings.notify),
        kill_file=settings.service.state_dir / kill_switch.FILE,
        quotas=Quotas(**settings.quota.model_dump()),
    )


def _build_identify(service: Service) -> Callable[..., Caller]:
    """Return the reader of MUNGE credentials. On one host, munged refuses a second use itself."""
    if not service.store.is_shared:
        return munge.authenticate_caller
    claim_use = claim_in_database(service.store, time.time, UsedCredentials(time.time))
    return refuse_second_use(munge.verify_credential, claim_use)


def _build_identify_sack(service: Service) -> Callable[[str, str], Caller]:
    """Return the reader of credentials of Slurm's socket, which each service takes once.

    One host remembers them by itself, from now on: what was made before is refused.
    """
    name, used = service.settings.cluster.name, UsedCredentials(time.time)
    if service.store.is_shared:
        claim_use = claim_in_database(service.store, time.time, used)
        return wiring.build_sack_verifier(name, claim_use).authenticate_caller
    verifier = wiring.build_sack_verifier(name, used.claim_use, started_at=int(time.time()))
    return verifier.authenticate_caller


def _build_hosts(settings: ServiceSettings) -> Hosts:
    return build_hosts({settings.host, *list_machine_names()}, settings.origins)
