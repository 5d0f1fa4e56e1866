"""Formats the shadow report as words and cells, for a terminal and for its page."""

from collections.abc import Iterator
from typing import Any

from mirage.reports.recommendation import REACTIVE

COLUMNS = (
    ("inter-\nruption h", "interruption_h", 2),
    ("overlap\nh", "overlap_h", 2),
    ("none\n%", "zero_interruption_pct", 0),
    ("cost\nh", "cost_h", 2),
)
"""(heading, figure of `mirage evaluate`, digits)."""


def describe_pairs(document: dict[str, Any]) -> Iterator[str]:
    """Describe which hand-overs were asked about, and why these were chosen."""
    if document["pairs"]:
        yield (
            f"{document['trace']} replayed on {document['cluster']}; hand-overs that begin from "
            f"{document['from'][:16]} to {document['until'][:16]} UTC; an hour of overlap costs "
            f"{document['overlap_price']:g} h."
        )
    for pair in document["pairs"]:
        left_out = (
            f"; {pair['left_out']} start points gave no hand-over" if pair["left_out"] else ""
        )
        yield f"- {pair['name']} ({pair['why']}): {pair['episodes']} hand-overs{left_out}"
    for waits in document.get("waits", ()):  # a stored report may be older
        yield (
            f"Partition {waits['partition']}: {waits['jobs']:,} jobs waited "
            f"{waits['logged_h']:.2f} h on average in the log, {waits['replayed_h']:.2f} h in its "
            f"replay{'' if waits['agrees'] else ': the replay does not follow the log'}."
        )
    if document["pairs"] and not document.get("waits", ("older",)):
        yield "The log has no waits that the replay's can be compared with."
    away_count = document.get("released_while_away")  # None if the report is of a log
    if away_count:
        yield (
            f"In this time Slurm released the next link of {away_count:,} "
            f"hand-over{'s' * (away_count != 1)} "
            "by a plan while Mirage was away."
        )


def format_title(group: dict[str, Any]) -> str:
    count = group["policies"][REACTIVE]["all"]["episodes"]
    subject = "All" if group["by"] == "all" else f"By {group['by']}: {group['name']}"
    return (
        f"{subject}: mean of {count} hand-overs on {group['days']} days [95 % interval over days]"
    )


def format_cell(figures: dict[str, Any], figure: str, digits: int, *, short: bool = False) -> str:
    """Format a figure with its interval, or without it if `short`."""
    value, interval = figures[figure], figures[f"{figure}_ci"]
    if value is None:
        return ""
    brackets = (
        ""
        if interval is None or short
        else f" [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
    )
    return f"{value:.{digits}f}{brackets}"


def format_saving(group: dict[str, Any], name: str) -> str:
    """Format the interruption that Mirage saves against a baseline, summed, in hours.

    Returns an empty string if the group was not compared with that baseline.
    """
    against = group["against"].get(name)
    return "" if against is None else format_cell(against, "interruption_saved_sum_h", 0)
