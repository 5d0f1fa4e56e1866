"""Prints what came of a run of `mirage learn`."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_document(document: Mapping[str, Any], console: Console) -> None:
    """Print the verdict, then what it stands on."""
    console.print(f"[bold]{escape(document['sentence'])}[/bold]", soft_wrap=True)
    if document.get("reason"):
        console.print(escape(f"Reason: {document['reason']}."), soft_wrap=True)
    not_asked = document.get("not_asked")
    if not_asked:
        console.print(f"[bold]{escape(not_asked['why'])}.[/bold]", soft_wrap=True)
    for sentence in (*document.get("settled", ()), *_list_history(document)):
        console.print(escape(sentence), soft_wrap=True)
    for shape in document.get("shapes", ()):
        console.print(escape(f"Learned for {shape['name']} ({shape['why']})."), soft_wrap=True)
    if "figures" in document:
        console.print(_render_figures(document))
    if "plan" in document:
        console.print(_render_plan(document))


def _list_history(document: Mapping[str, Any]) -> list[str]:
    return list(document.get("history", {}).get("sentences", ()))


def _render_figures(document: Mapping[str, Any]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"mean of {document['judged_handovers']} hand-overs of the newest weeks, h",
        title_justify="left",
    )
    table.add_column("policy", overflow="fold")
    for heading in ("interruption", "overlap", "cost", "95 %"):
        table.add_column(heading, justify="right")
    rows = sorted(document["figures"].items(), key=lambda row: row[1]["cost_h"])
    for name, figures in rows:
        means = (figures["interruption_h"], figures["overlap_h"], figures["cost_h"])
        note = " (has learned from these weeks)" if name in document["seen"] else ""
        interval = figures["ci"]
        ends = "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
        table.add_row(escape(name + note), *(f"{mean:.2f}" for mean in means), ends)
    return table


def _render_plan(document: Mapping[str, Any]) -> Table:
    plan, took = document["plan"], document["took_s"]
    table = Table(box=box.SIMPLE_HEAD, title="the run", title_justify="left", show_header=False)
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("weeks", str(plan["weeks"]))
    table.add_row("hand-overs", f"{plan['handovers']:,}")
    table.add_row("tables that were missing", str(plan["tables_to_make"]))
    table.add_row("families", ", ".join(plan["families"]))
    for stage, seconds in took.items():
        table.add_row(f"{stage} took", f"{seconds:,.0f} s")
    table.add_row("most memory of a process", f"{document['peak_gib']:.1f} GiB")
    return table
