"""Code that commands which write hand-over tables share: progress, Ctrl-C, left-out rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from mirage.history.workloads import replay
    from mirage.lab.blocks.block_executor import BlockExecutor
    from mirage.lab.episodes.generation.resumable_build import BuiltTable, TablePlan

_AFTER_CTRL_C = 130
"""The exit code that shells report after Ctrl-C."""


def make_table(plan: "TablePlan", out: Path, executor: "BlockExecutor") -> "BuiltTable":
    """Build the table into `out` and show a bar. On Ctrl-C the done part is kept, exit code 130."""
    from mirage.lab.episodes.generation.resumable_build import build_table, count_kept_points

    total = len(plan.settings.start_points)
    try:
        with _show_progress(total) as on_progress:
            return build_table(plan, out, executor, on_progress)
    except KeyboardInterrupt:
        kept_points = count_kept_points(plan, out)
        typer.echo(
            f"mirage: {kept_points} of {total} start points are kept: run the same command again "
            "to go on",
            err=True,
        )
        raise typer.Exit(_AFTER_CTRL_C) from None


def warn_of_unreplayed_rows(trace: Path, trace_replay: "replay.Replay") -> None:
    """Warn on standard error if rows of the trace are not in the replay."""
    if trace_replay.refused:
        reasons = ", ".join(f"{reason} ({rows})" for reason, rows in trace_replay.refused.items())
        typer.echo(
            f"mirage: warning: {trace}: {sum(trace_replay.refused.values())} of "
            f"{trace_replay.read} rows are not replayed: {reasons}",
            err=True,
        )


@contextmanager
def _show_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with bar:
        task = bar.add_task("start points", total=total)
        yield lambda points: bar.advance(task, points)
