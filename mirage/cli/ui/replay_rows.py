"""Renders the table of a log's rows: how many were replayed, and why the others were not."""

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from mirage.history.workloads.replay import Replay


def render_rows_table(replay: "Replay") -> Table:
    """Render the rows read and replayed, and the rows that were changed or left out, by reason."""
    from mirage.lab.simulation.log_replay import count_rows_by_reason

    table = create_table("rows", "number", "first seen at")
    table.add_row("read", f"{replay.read:,}")
    table.add_row("replayed", f"{len(replay.workload):,}")
    for kind, reasons in count_rows_by_reason(replay).items():
        for reason, tally in reasons.items():
            first = ", ".join(map(str, tally["first"]))
            table.add_row(f"{kind}: {escape(reason)}", str(tally["rows"]), first)
    return table


def create_table(*columns: str) -> Table:
    """Create a table whose first column is aligned left and the others right."""
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table
