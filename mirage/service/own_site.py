"""Finds out what an admin would configure for a user's own service: the cluster's name and file.

Both come from Slurm. The cluster file is kept in the user's state directory, and made anew when it
is old.
"""

import time
from contextlib import closing
from pathlib import Path

import structlog

from mirage.config.settings import Settings
from mirage.database.operations import clusters
from mirage.domain.time_units import DAY_S
from mirage.errors import ClusterUnavailable, MirageError
from mirage.history.cluster_files.reader import ClusterFile, load_cluster_file
from mirage.service import database_setup, site_file
from mirage.slurm.clients.cli.client import SlurmCli

_log = structlog.get_logger(__name__)

FILE = "cluster.toml"
RENEW_S = DAY_S
"""Seconds after which the cluster file is made anew: nodes and limits change over the weeks."""


def complete_settings(settings: Settings, *, renews: bool = False) -> Settings:
    """Return the settings with what Slurm says where the user's file says nothing.

    With `renews`, a cluster file that is missing, old or of another release is imported; a service
    whose Slurm does not answer keeps the old one. Raises ClusterUnavailable if nobody knows the
    cluster's name.
    """
    cluster = settings.cluster
    if cluster.transport != "cli" or (_is_named(settings) and cluster.file is not None):
        return settings
    file = settings.service.state_dir / FILE
    site = _load_file(file)
    if renews and cluster.file is None and (site is None or _is_old(file)):
        site = _import_file(file) or site
    changes: dict[str, object] = {}
    if cluster.file is None and site is not None:
        changes["file"] = file
    if not _is_named(settings):
        changes["name"] = site.params.name if site is not None else _ask_name(settings)
    return settings.model_copy(update={"cluster": cluster.model_copy(update=changes)})


def name_cluster(settings: Settings) -> None:
    """Give the rows of an older release, which did not ask for the name, the cluster's name."""
    default = str(type(settings.cluster).model_fields["name"].default)
    with closing(database_setup.open_store(settings)) as store, store.begin() as tx:
        clusters.rename_cluster(tx, default, settings.cluster.name)


def _is_named(settings: Settings) -> bool:
    return "name" in settings.cluster.model_fields_set


def _load_file(file: Path) -> ClusterFile | None:
    """Return the file that was imported; None: there is none, or this release cannot read it."""
    try:
        return load_cluster_file(file) if file.exists() else None
    except MirageError as error:
        _log.warning("the cluster file is made anew", file=str(file), error=str(error))
        return None


def _is_old(file: Path) -> bool:
    return not 0 <= time.time() - file.stat().st_mtime < RENEW_S


def _import_file(file: Path) -> ClusterFile | None:
    try:
        text, site = site_file.render_site(site_file.query_site(), str(file))
        site_file.write_atomically(file, text)
    except MirageError as error:
        _log.warning(
            "no cluster file can be imported, so the twin and models know nothing new of the site",
            error=str(error),
        )
        return None
    _log.info("cluster file imported", file=str(file), cluster=site.params.name)
    return site


def _ask_name(settings: Settings) -> str:
    slurm = SlurmCli(timeout_s=settings.cluster.command_timeout_s)
    name = slurm.fetch_site_config().cluster_name
    if not name:
        raise ClusterUnavailable("Slurm does not name its cluster: set cluster.name")
    return name
