"""The bar of long work whose steps are counted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def counted(name: str, total: int) -> Iterator[Callable[..., None]]:
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
