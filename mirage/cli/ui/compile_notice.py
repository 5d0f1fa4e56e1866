"""The one wait that nobody expects: kernels are compiled when they are first used."""

from pathlib import Path

import typer

from mirage.sim.arrays.jit import CACHE


def warn_if_compiling() -> None:
    """Tell a person, on stderr, why the first run after an installation takes a minute longer."""
    # The folder itself is made as soon as a module with kernels is imported.
    if not any(Path(CACHE).rglob("*.nbi")):
        told = (
            "compiling the simulator: once after an installation, a minute; more where others work"
        )
        typer.echo(told, err=True)
