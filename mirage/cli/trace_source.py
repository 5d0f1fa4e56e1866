"""Finds the log that a command replays: a file, or the history that the service has stored."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mirage.cli.ui.study_output import TERMINAL
from mirage.errors import InputError

FromDatabaseOption = Annotated[
    bool,
    typer.Option(
        "--from-database",
        help="Replay the history that the service has stored, instead of TRACE. "
        "The cluster file is then cluster.file of the configuration, unless --cluster is given.",
    ),
]


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A log to replay."""

    path: Path
    cluster: Path | None
    """The cluster file; None: none is given."""


@contextmanager
def open_trace_source(
    trace: Path | None, cluster: Path | None, config: Path | None, *, from_database: bool
) -> Iterator[TraceSource]:
    """Yield the file `trace`, or a temporary file with the stored history.

    Raises InputError unless exactly one of the two is asked for.
    """
    if from_database == (trace is not None):
        raise InputError("give a TRACE, or --from-database for the history that is stored")
    if trace is not None:
        yield TraceSource(trace, cluster)
        return
    from mirage.config import settings as settings_file  # noqa: PLC0415 - a Tab does without it
    from mirage.lab.site_history import export_log  # noqa: PLC0415 - as above
    from mirage.service import database_setup  # noqa: PLC0415 - as above

    settings = settings_file.load_settings(config)
    with tempfile.TemporaryDirectory(prefix="mirage-history-") as folder:
        path = Path(folder) / "history.parquet"
        store = database_setup.open_store(settings)
        export_log(store, settings.cluster.name, path, lambda _: 0, TERMINAL)
        yield TraceSource(path, cluster or settings.cluster.file)


def require_cluster_file(source: TraceSource) -> Path:
    """Return the cluster file. Raises InputError if there is none."""
    if source.cluster is None:
        raise InputError(
            "a replay needs the cluster file of its cluster: give --cluster C.toml, which "
            "`mirage cluster import` writes"
        )
    return source.cluster
