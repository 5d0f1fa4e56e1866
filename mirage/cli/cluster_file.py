"""Loads the cluster file of a command's option."""

from pathlib import Path

import typer

from mirage.history.cluster_files.reader import load_cluster_params
from mirage.simulator.slurm_release import describe_planner, is_unchecked
from mirage.simulator.types import Params


def load_site_params(cluster: Path) -> Params:
    """Return the parameters of a cluster file.

    Warns on standard error if the simulator was not compared with the file's release of Slurm. A
    file that names none is no surprise here: most are of a log, not of a Slurm that runs.
    """
    params = load_cluster_params(cluster)
    if params.slurm_version and is_unchecked(params.slurm_version):
        typer.echo(
            f"mirage: warning: {cluster}: {describe_planner(params.slurm_version)}", err=True
        )
    return params
