"""Shows the progress of long work: a bar if its steps are counted, else the elapsed time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)


@contextmanager
def show_progress(name: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error, if that is a terminal.

    Yields a function to call after each step, or with the number of steps done since the last call.
    """
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
def show_share_bar(name: str) -> Iterator[Callable[[float], None] | None]:
    """Show a bar on standard error, and yield its setter; None if that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(escape(name), total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def show_activity(name: str) -> Iterator[None]:
    """Show a spinner and the elapsed time on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as sign:
        sign.add_task(name, total=None)
        yield
