"""The shadow report on a terminal."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.policy.registry import AUTO
from mirage.services.reports.recommendation import NAMES, ORDER, REACTIVE
from mirage.studies.evaluation.auto_choices import format_auto_choices

COLUMNS = (
    ("inter-\nruption h", "interruption_h", 2),
    ("overlap\nh", "overlap_h", 2),
    ("none\n%", "zero_interruption_pct", 0),
    ("cost\nh", "cost_h", 2),
)
"""Heading, figure of `mirage evaluate`, digits."""
LED = "interruption_h"
"""A terminal has width for the interval of one: JSON and page have them all."""


def print_report(document: dict[str, Any], console: Console) -> None:
    """Recommendation first, then what it rests on."""
    told = document["recommendation"]
    console.print(f"[bold]{escape(told['advice'])}[/bold]", soft_wrap=True)
    console.print(escape(told["reason"]), soft_wrap=True)
    for line in describe_pairs(document):
        console.print(escape(line), soft_wrap=True)
    for group in document["groups"]:
        console.print(_render_group_table(group))
        if group["by"] != "all":
            console.print(f"{escape(group['recommendation']['advice'])}", soft_wrap=True)
    if document["groups"]:
        console.print(
            format_auto_choices(document["groups"][0]["policies"][AUTO]["all"]), soft_wrap=True
        )


def describe_pairs(document: dict[str, Any]) -> Iterator[str]:
    """Which hand-overs were asked about, and why these."""
    if document["pairs"]:
        yield (
            f"{document['trace']} replayed on {document['cluster']}; hand-overs that begin from "
            f"{document['from'][:16]} to {document['until'][:16]} UTC; an hour of overlap costs "
            f"{document['overlap_price']:g} h."
        )
    for pair in document["pairs"]:
        beyond = f", {pair['left_out']} start points gave none" if pair["left_out"] else ""
        yield f"- {pair['name']} ({pair['why']}): {pair['episodes']} hand-overs{beyond}"


def format_title(group: dict[str, Any]) -> str:
    count = group["policies"][REACTIVE]["all"]["episodes"]
    what = "All" if group["by"] == "all" else f"By {group['by']}: {group['name']}"
    return f"{what}: mean of {count} hand-overs on {group['days']} days [95 % interval over days]"


def format_cell(told: dict[str, Any], figure: str, digits: int, *, short: bool = False) -> str:
    """A figure with its interval; in short without."""
    value, ends = told[figure], told[f"{figure}_ci"]
    if value is None:
        return ""
    between = "" if ends is None or short else f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"
    return f"{value:.{digits}f}{between}"


def format_saving(group: dict[str, Any], name: str) -> str:
    """What Mirage saves against a baseline, hours in sum; empty for what is none."""
    against = group["against"].get(name)
    return "" if against is None else format_cell(against, "interruption_saved_sum_h", 0)


def _render_group_table(group: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=escape(format_title(group)), title_justify="left")
    table.add_column("", no_wrap=True)
    for heading, _, _ in COLUMNS:
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("Mirage saves\nsum, h", justify="right", overflow="fold")
    for name in ORDER:
        told = group["policies"][name]["all"]
        cells = [
            format_cell(told, figure, digits, short=figure != LED) for _, figure, digits in COLUMNS
        ]
        table.add_row(
            NAMES.get(name, name), *map(escape, cells), escape(format_saving(group, name))
        )
    return table
