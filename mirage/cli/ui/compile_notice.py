"""Announces the compilation of the simulator, which delays the first run."""

from pathlib import Path

import typer


def warn_if_compiling() -> None:
    """Say on stderr why the first run after an installation takes a minute longer."""
    from mirage.simulator.arrays.jit import CACHE

    # The folder itself is made as soon as a module with kernels is imported.
    if not any(Path(CACHE).rglob("*.nbi")):
        message = (
            "compiling the simulator: this takes a minute, once after an installation, "
            "and longer on a busy machine"
        )
        typer.echo(message, err=True)
