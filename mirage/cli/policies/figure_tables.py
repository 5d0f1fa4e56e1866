"""Tables of what policies cost, for `mirage evaluate` and for the metrics of a model's card."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from mirage.judging.evaluation import Figures

_Column = tuple[str, str, int]
"""(heading, figure, digits)"""
_FIXED_COLUMNS: tuple[_Column, ...] = (
    ("inter-\nruption h", "interruption_h", 2),
    ("overlap\nh", "overlap_h", 2),
    ("zero %", "zero_interruption_pct", 0),
    ("cost h", "cost_h", 2),
    ("gap\nclosed", "gap_closed", 2),
)
"""The columns that are always shown."""
_RETURNS = ("returns", "returns", 2)
"""The column that is shown if returns are played."""


def render_figure_tables(
    figures: "Figures", *, most_returns: int, intervals: bool
) -> Iterator[Table]:
    """Yield a table for each load class that has hand-overs, at most 80 columns wide.

    `most_returns`: how often a link might give its nodes back.
    """
    from mirage.judging.evaluation import CLASSES

    for load in CLASSES:
        rows = {name: by_class[load] for name, by_class in figures.items()}
        count = next(iter(rows.values()))["episodes"]
        if count:
            table = _render_rows(rows, most_returns, intervals=intervals)
            interval_note = ", in brackets the 95 % interval over days" if intervals else ""
            table.title = f"{load}: mean of {count} hand-overs{interval_note}"
            yield table


def render_metrics(metrics: Mapping[str, Any]) -> Table | None:
    """Render the `metrics` of a card: means of all judged hand-overs, the cheapest policy first.

    Returns None for a card without judged hand-overs.
    """
    rows = {name: by_class["all"] for name, by_class in metrics.get("policies", {}).items()}
    if not rows:
        return None
    ranked = dict(sorted(rows.items(), key=lambda row: float(row[1]["cost_h"])))
    table = _render_rows(ranked, metrics.get("most_returns", 0), intervals=False)
    count = next(iter(rows.values()))["episodes"]
    table.title = f"mean of {count} hand-overs, on rolling windows of later weeks"
    return table


def _render_rows(
    rows: Mapping[str, Mapping[str, Any]], most_returns: int, *, intervals: bool
) -> Table:
    columns = (*_FIXED_COLUMNS, _RETURNS) if most_returns else _FIXED_COLUMNS
    table = Table(box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("policy", no_wrap=True, overflow="fold")
    for heading, _, _ in columns:
        table.add_column(heading, justify="right", overflow="fold")
    for name, figures in rows.items():
        table.add_row(name, *_format_cells(figures, columns, intervals=intervals))
    return table


def _format_cells(
    figures: Mapping[str, Any], columns: Sequence[_Column], *, intervals: bool
) -> Iterator[str]:
    for _, figure, digits in columns:
        ends = figures[f"{figure}_ci"] if intervals else None
        yield format_figure(figures[figure], ends, digits)


def format_figure(value: float | None, ends: Sequence[float] | None, digits: int = 2) -> str:
    """Format a figure with its interval, if it has one; an unknown figure is empty."""
    if value is None:
        return ""
    interval = f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]" if ends else ""
    return f"{value:.{digits}f}{interval}"
