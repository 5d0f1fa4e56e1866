"""`mirage plugin`: prints where the wrapped sbatch is, for a shell's profile."""

import os
import shlex
from pathlib import PurePosixPath

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
    typer.echo(format_path_line(str(folder), os.environ.get("SHELL", "")))


def format_path_line(folder: str, shell: str) -> str:
    """Return the line that puts `folder` first on PATH, in the words of this login shell.

    `shell`: a path, such as /bin/tcsh; csh and tcsh have no `export`.
    """
    if PurePosixPath(shell).name in {"csh", "tcsh"}:
        # csh expands `!` even between quotes.
        return f'setenv PATH {shlex.quote(folder).replace("!", chr(92) + "!")}:"$PATH"'
    return f'export PATH={shlex.quote(folder)}:"$PATH"'
