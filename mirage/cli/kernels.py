"""The one wait that nobody expects: kernels are compiled when they are first used."""

from pathlib import Path

import typer

from mirage.sim.jit import CACHE


def say_if_compiling() -> None:
    """Tell a person, on stderr, why the first run after an installation takes a minute longer."""
    if not Path(CACHE).exists():
        typer.echo("compiling the simulator: once after an installation, about a minute", err=True)
