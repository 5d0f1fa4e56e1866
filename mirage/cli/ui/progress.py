"""Shows the progress of long work: a bar if its steps are counted, else a sign of life."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


@contextmanager
def show_progress(name: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on standard error, where that is a terminal; what is yielded is called each step, or
    with how many were done."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(name, total=total)
        yield lambda steps=1: bar.advance(task, steps)


@contextmanager
def show_activity(name: str) -> Iterator[None]:
    """A sign of life and the time gone by on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as sign:
        sign.add_task(name, total=None)
        yield
