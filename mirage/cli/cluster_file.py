"""The cluster file that a command is given."""

from pathlib import Path

import typer

from mirage.sim.slurm_release import describe_planner, is_unchecked
from mirage.sim.types import Params
from mirage.traces.cluster_files.reader import load_cluster_params


def load_site_params(cluster: Path) -> Params:
    """Params of a cluster file; on standard error, where nobody has compared its Slurm's plans."""
    params = load_cluster_params(cluster)
    if is_unchecked(params.slurm_version):
        typer.echo(
            f"mirage: warning: {cluster}: {describe_planner(params.slurm_version)}", err=True
        )
    return params
