"""Opens the history that the service has stored, and writes its jobs as a trace to replay."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mirage.config import settings as settings_file
from mirage.config.settings import Settings
from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.errors import InputError
from mirage.history.ingest.trace_export import write_history
from mirage.lab.study_output import StudyOutput
from mirage.service import database_setup
from mirage.simulator.types import Params

BEFORE_S = 32 * 86400
"""Jobs of this many seconds before the first hand-over are replayed too, so that the queue has
built up and users have their usage."""


@dataclass(frozen=True, slots=True)
class JobLog:
    """A log of jobs."""

    path: Path
    name: str
    """The name that people are shown."""
    timezone: str | None = None
    """The zone of its local times, as it was given."""


@dataclass(frozen=True, slots=True)
class SiteHistory:
    """The service's own database and cluster."""

    name: str
    params: Params
    store: Store

    @classmethod
    def from_config(
        cls,
        config: Path | None,
        cluster: Path | None,
        load_params: Callable[[Path], Params],
        otherwise: str = "",
    ) -> Self:
        """Open the site's history. `load_params` reads a cluster file.

        Raises InputError if there is no cluster file to replay jobs on. `otherwise` is a sentence
        of that error: how to do without the service's history.
        """
        settings = settings_file.load_settings(config)
        params = load_params(find_cluster_file(settings, cluster, otherwise))
        return cls(settings.cluster.name, params, database_setup.open_store(settings))

    def find_cluster_id(self, tx: Transaction) -> int | None:
        """Return the cluster's id in the database; None: nothing is stored of it."""
        return find_cluster_id(tx, self.name)

    def export_log(
        self, path: Path, choose_since: Callable[[int], int], output: StudyOutput
    ) -> JobLog:
        """Write the stored jobs as the trace `path`, in one read transaction."""
        return export_log(self.store, self.name, path, choose_since, output)


def find_cluster_file(settings: Settings, cluster: Path | None, otherwise: str = "") -> Path:
    """Return the cluster file that is given, else that of the configuration.

    Raises InputError, which ends with `otherwise`, if there is none.
    """
    file = cluster or settings.cluster.file
    if file is None:
        message = (
            "no cluster file is set: write one with `mirage cluster import`, then set "
            "cluster.file or give --cluster"
        )
        raise InputError(f"{message}. {otherwise}" if otherwise else message)
    return file


def find_cluster_id(tx: Transaction, name: str) -> int | None:
    """Return the id of the cluster of that name; None: nothing is stored of it."""
    name_by_id = clusters.list_cluster_names(tx).items()
    return next(
        (cluster_id for cluster_id, cluster_name in name_by_id if cluster_name == name), None
    )


def export_log(
    store: Store,
    name: str,
    path: Path,
    choose_since: Callable[[int], int],
    output: StudyOutput,
) -> JobLog:
    """Write the stored jobs of the cluster `name` as the trace `path`, in one read transaction.

    `choose_since` gets the last submission and returns the first one that is wanted. Raises
    InputError if no job is stored.
    """
    with store.read() as tx:
        cluster_id = find_cluster_id(tx, name)
        last = None if cluster_id is None else job_history.read_last_submission(tx, cluster_id)
        if cluster_id is None or last is None:
            raise InputError(
                f"no job of cluster {name} is stored yet: run the service for some weeks, "
                "or load a log with `mirage ingest`"
            )
        count = job_history.count_jobs(tx, cluster_id)
        with output.show_progress("reading the job history", count) as on_progress:
            write_history(tx, cluster_id, path, choose_since(last), on_progress)
    return JobLog(path, f"the history of {name}")
