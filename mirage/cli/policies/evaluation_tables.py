"""What `mirage evaluate` shows on a terminal: a table for each load class."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table

from mirage.episodes.judge.evaluation import CLASSES, Figures

_SHOWN = (
    ("inter-\nruption h", "interruption_h", 2),
    ("overlap\nh", "overlap_h", 2),
    ("zero %", "zero_interruption_pct", 0),
    ("cost h", "cost_h", 2),
    ("gap\nclosed", "gap_closed", 2),
)
"""Columns: heading, figure, digits."""


def render_figure_tables(figures: Figures, *, intervals: bool) -> Iterator[Table]:
    """One for each class that has hand-overs: 80 columns hold the policies' names whole."""
    for load in CLASSES:
        rows = {name: by_class[load] for name, by_class in figures.items()}
        count = next(iter(rows.values()))["episodes"]
        if count:
            table = _render_class_table(rows, intervals)
            within = ", in brackets the 95 % interval over days" if intervals else ""
            table.title = f"{load}: mean of {count} hand-overs{within}"
            yield table


def _render_class_table(rows: dict[str, dict[str, Any]], intervals: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("policy", no_wrap=True, overflow="fold")
    for heading, _, _ in _SHOWN:
        table.add_column(heading, justify="right", overflow="fold")
    for name, told in rows.items():
        cells = (_format_cell(told, figure, digits, intervals) for _, figure, digits in _SHOWN)
        table.add_row(name, *cells)
    return table


def _format_cell(told: dict[str, Any], figure: str, digits: int, intervals: bool) -> str:
    value, ends = told[figure], told[f"{figure}_ci"]
    if value is None:
        return ""
    between = f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]" if ends and intervals else ""
    return f"{value:.{digits}f}{between}"
