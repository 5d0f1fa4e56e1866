"""Warns the admin in the log, once, about settings of Slurm that matter to Mirage."""

from collections.abc import Callable

import structlog

from mirage.errors import ClusterError
from mirage.slurm.commands.scontrol import SiteConfig

_log = structlog.get_logger(__name__)


def warn_about_site(read_site_config: Callable[[], SiteConfig], cluster_name: str) -> None:
    """Log the warnings about Slurm's settings; `cluster_name` is Mirage's `cluster.name`."""
    try:
        site = read_site_config()
    except ClusterError as error:
        _log.warning("Slurm's settings are not known", error=str(error))
        return
    if site.cluster_name != cluster_name:
        _log.warning(
            "cluster.name is not Slurm's ClusterName: history of two clusters may be mixed",
            configured=cluster_name,
            slurm=site.cluster_name,
        )
    if site.accrues_always:
        flags = sorted(site.priority_flags)
        _log.warning("a plain dependency may do as well as Mirage here", priority_flags=flags)
    if not site.age_counts:
        _log.warning(
            "age does not count in priority here",
            priority_type=site.priority_type,
            weight=site.weights.get("age", 0),
            slurmdbd=site.accounting,
        )
    if not site.keeps_comments:
        # Not a warning: Mirage then finds links by job id and submit line.
        _log.info("accounting keeps no comments", store_flags=sorted(site.store_flags))
