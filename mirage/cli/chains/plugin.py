"""`mirage plugin`: where the wrapped sbatch is, for a shell's profile."""

import shlex

import typer

from mirage.config.paths import get_data_dir
from mirage.errors import MirageError

app = typer.Typer()
plugin_app = typer.Typer(
    no_args_is_help=True, help="The wrapped sbatch: the line for your shell's profile."
)
app.add_typer(plugin_app, name="plugin")


@plugin_app.callback()
def describe_plugin_commands() -> None:
    """The wrapped sbatch: the line for your shell's profile."""


@plugin_app.command("path")
def print_path_line() -> None:
    """Print the line for your shell's profile: with it `sbatch --mirage-chain=8` makes a chain.

    The folder must be seen from the compute nodes, as a home directory mostly is.
    """
    folder = get_data_dir("slurm_plugin").resolve()
    if not (folder / "sbatch").exists():
        raise MirageError(f"the wrapped sbatch is not at {folder}: this install is not whole")
    typer.echo(f'export PATH={shlex.quote(str(folder))}:"$PATH"')
