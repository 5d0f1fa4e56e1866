"""What commands that make tables of hand-overs share: spans of time, the plan, the bar."""

import hashlib
import math
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

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

from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.episodes.generation.builder import describe_table
from mirage.episodes.generation.resumable_build import (
    BuiltTable,
    TablePlan,
    build_table,
    count_kept_points,
)
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.episodes.table.pair_settings import PairSettings
from mirage.errors import InputError, MalformedText
from mirage.sim.types import Params, SimJob
from mirage.traces.workloads import replay

LEAD_IN_S = 6 * 86400
"""The first days of a trace lack the jobs that ran before it: no start points by default."""
_DAY_S = 86400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": _DAY_S}
_AFTER_CTRL_C = 130
"""As shells say."""
_MANY_BEYOND = 0.01
_SHORT = re.compile(r"(\d+)([smhd])")


def warn_if_beyond_trace(path: Path, table: EpisodeTable) -> None:
    """Whether a good part of its outcomes is of a queue that only drained."""
    share = table.about.beyond_trace / max(1, table.outcome_s.size)
    if share >= _MANY_BEYOND:
        typer.echo(
            f"mirage: note: {path}: of {share:.0%} of the instants the successor started after the "
            "last submission of the trace, when nobody came any more: too early. Make the table "
            "anew with an earlier --until",
            err=True,
        )


def make_table(plan: TablePlan, out: Path, processes: int) -> BuiltTable:
    total = len(plan.settings.start_points)
    try:
        with _show_progress(total) as told:
            return build_table(plan, out, processes, told)
    except KeyboardInterrupt:
        done = count_kept_points(plan, out)
        typer.echo(
            f"mirage: {done} of {total} start points kept; the same command goes on", err=True
        )
        raise typer.Exit(_AFTER_CTRL_C) from None


def warn_of_unreplayed_rows(trace: Path, taken: replay.Replay) -> None:
    """On standard error, where rows of the trace are not in the replay."""
    if taken.refused:
        why = ", ".join(f"{reason} ({rows})" for reason, rows in taken.refused.items())
        typer.echo(
            f"mirage: warning: {trace}: {sum(taken.refused.values())} of {taken.read} rows are not "
            f"replayed: {why}",
            err=True,
        )


def build_plan(
    trace: Path,
    params: Params,
    replayed: Sequence[SimJob],
    settings: PairSettings,
    load: float = 1.0,
) -> TablePlan:
    """`replayed`: the jobs of the trace, at that load."""
    about = describe_table(
        params,
        settings,
        trace=trace.name,
        source=str(trace.absolute()),
        trace_sha256=hashlib.sha256(trace.read_bytes()).hexdigest(),
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in ("mirage-provisioner", "numba", "numpy")},
        },
    )
    return TablePlan(params, replayed, settings, replace(about, load=load))


def check_finite(option: typer.CallbackParam, number: float) -> float:
    """For an option: `nan` and `inf` are numbers to the parser."""
    if not math.isfinite(number):
        raise InputError(f"{option.opts[0]} {number}: no finite number")
    return number


def parse_duration_s(text: str, option: str) -> int:
    short = _SHORT.fullmatch(text.strip().lower())
    if short:
        return int(short[1]) * _UNITS_S[short[2]]
    try:
        seconds = parse_time_limit(text)
    except MalformedText:
        seconds = None
    if not seconds or seconds == UNLIMITED:
        raise InputError(f"{option} {text}: not a time such as 4h or 48:00:00")
    return seconds


def parse_instant(text: str, option: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text}: not a date such as 2023-02-13") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def round_to_midnight(at: int) -> int:
    return -(-at // _DAY_S) * _DAY_S


def count_cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _show_progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal."""
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
        yield lambda done: bar.advance(task, done)
