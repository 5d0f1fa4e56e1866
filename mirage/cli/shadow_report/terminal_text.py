"""The shadow report on a terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirage.policy.registry import AUTO
from mirage.services.reports.recommendation import NAMES, ORDER
from mirage.studies.evaluation.auto_choices import format_auto_choices
from mirage.studies.shadow_report.report_text import (
    COLUMNS,
    describe_pairs,
    format_cell,
    format_saving,
    format_title,
)

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
