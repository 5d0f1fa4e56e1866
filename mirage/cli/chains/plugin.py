"""`mirage plugin`: prints where the wrapped sbatch is, for a shell's profile."""

import shlex

import typer

from mirage.config.paths import get_data_dir
from mirage.errors import MirageError

app = typer.Typer()
plugin_app = typer.Typer(
    no_args_is_help=True,
    help="Print the line for your shell's profile that finds the wrapped sbatch.",
)
app.add_typer(plugin_app, name="plugin")


@plugin_app.callback()
def describe_plugin_commands() -> None:
    """Print the line for your shell's profile that finds the wrapped sbatch."""


@plugin_app.command("path")
def print_path_line() -> None:
    """Print a line for your shell's profile, with which `sbatch --mirage-chain=8` submits a chain.

    Compute nodes must see the folder in that line. In most clusters they see your home directory.
    """
    folder = get_data_dir("slurm_plugin").resolve()
    if not (folder / "sbatch").exists():
        raise MirageError(
            f"the wrapped sbatch is not in {folder}: this installation is incomplete, "
            "install Mirage again"
        )
    typer.echo(f'export PATH={shlex.quote(str(folder))}:"$PATH"')
