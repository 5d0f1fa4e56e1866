"""Chains and decisions as a person reads them. Times are this host's, as Slurm's commands show."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from mirage.cli import timeline_text
from mirage.cli.timeline import Timeline
from mirage.domain.printable import printable

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

_DONE = {
    "none": "",
    "intended": "Slurm is being told.",
    "done": "Slurm did it.",
    "refused": "Slurm refused",
    "failed": "Slurm did not take it",
}
_ACTION = {
    "wait": "left the standby where it is",
    "free": "freed the standby, so that it may start at once",
    "pin": "pinned the standby to its predecessor's nodes",
    "hold": "put the standby back behind its predecessor",
    "submit": "had the next link submitted",
}


def table(chains: Iterable[Mapping[str, Any]]) -> Table:
    made = Table()
    # Whole on a narrow terminal too: it is what the other commands take.
    made.add_column("chain", no_wrap=True)
    for name in ("user", "state", "links", "running", "hand-overs", "created", "note"):
        made.add_column(name)
    for chain in chains:
        made.add_row(
            chain["chain_id"],
            _safe(chain["user"]),
            chain["state"],
            f"{chain['links_started']} of {chain['links_planned'] or '?'}",
            ", ".join(map(str, chain["running"])) or "-",
            _outcome(chain),
            moment(chain["created_at"]),
            _safe(chain["note"]),
        )
    return made


def _safe(text: str) -> str:
    """A user's or Slurm's own words, for a table: neither markup nor the terminal's."""
    return escape(printable(text))


def _outcome(chain: Mapping[str, Any]) -> str:
    if not chain["handovers_done"]:
        return "-"
    return (
        f"{chain['handovers_done']}: {chain['interruption_h']:.2f} h interrupted, "
        f"{chain['overlap_h']:.2f} h overlapped"
    )


def drawing(drawn: Timeline, out: Console) -> Iterator[RenderableType]:
    """The timeline, as wide as what it is printed on."""
    width, ascii_only = out.width, out.options.ascii_only
    for line in timeline_text.draw(drawn, width, ascii_only=ascii_only):
        line.no_wrap, line.overflow = True, "crop"
        yield line


def page(
    chain: Mapping[str, Any], drawn: Iterable[RenderableType] = ()
) -> Iterator[RenderableType]:
    """`drawn`: its timeline, line by line."""
    yield table([chain])
    yield from drawn
    links = Table(
        *("link", "job", "state", "stands", "waits for", "nodes", "limit", "freed", "start", "end")
    )
    for link in chain["links"]:
        ended = link["end_state"] or link["state"]
        links.add_row(
            str(link["index"]),
            str(link["job_id"]),
            ended,
            link["position"] if link["state"] == "pending" else "",
            escape(link.get("reason", "")),
            str(link["nodes"]),
            "unlimited" if link["unlimited"] else duration(link["time_limit_s"]),
            moment(link["freed_at"]),
            moment(link["start"]),
            moment(link["end"]),
        )
    yield links
    yield from map(escape, at_risk(chain))
    if not chain["handovers"]:
        return
    handovers = Table("hand-over to link", "predecessor ended", "successor began", "gap", "overlap")
    for handover in chain["handovers"]:
        handovers.add_row(
            str(handover["link"]),
            moment(handover["predecessor_end"]),
            moment(handover["successor_start"]),
            duration(handover["interruption_h"] * _HOUR_S),
            duration(handover["overlap_h"] * _HOUR_S),
        )
    yield handovers


def at_risk(chain: Mapping[str, Any]) -> Iterator[str]:
    """What of, and what to do; nothing of a chain that is not."""
    risk = chain.get("at_risk")
    if risk is not None:
        yield f"At risk ({risk['reason']}): {risk['says']}. {risk['advice']}"


def decision(row: Mapping[str, Any]) -> str:
    """A decision in sentences: what, why, from what, and what became of it."""
    standby = row["inputs"].get("standby")
    job = "" if standby is None else f" (job {standby})"
    lines = [
        f"{moment(row['at'])}  link {row['link']}{job}, policy {row['policy']}",
        _what(row),
        f"Why: {row['reason']}.",
        *_inputs(row),
    ]
    return "\n  ".join(map(printable, lines))


def _what(row: Mapping[str, Any]) -> str:
    action = _ACTION[row["action"]]
    if row["action"] != "wait" and row["mode"] != "act":
        return f"Would have {action}: mode {row['mode']} touches nothing.{_again(row)}"
    told = _DONE[row["effect"]]
    error = f": {row['error']}" if row["error"] else ""
    return f"{action.capitalize()}. {told}{error}".rstrip() + _again(row)


def _again(row: Mapping[str, Any]) -> str:
    if not row["repeats"]:
        return ""
    return f" The same {row['repeats']} times more until {moment(row['last_at'])}."


def _inputs(row: Mapping[str, Any]) -> Iterator[str]:
    if row["time_left_s"] is not None:
        yield f"The predecessor has {duration(row['time_left_s'])} left by its time limit."
    forecast = row["forecast"]
    if forecast is None:
        return
    spread = ""
    if forecast["p10_s"] is not None and forecast["p90_s"] is not None:
        spread = f" ({duration(forecast['p10_s'])} to {duration(forecast['p90_s'])} in 8 of 10)"
    source = f", from {forecast['samples']} waits" if forecast["samples"] else ""
    yield f"Forecast wait if freed now: {duration(forecast['p50_s'])}{spread}{source}."


def moment(text: str | None) -> str:
    """Minutes are enough."""
    if text is None:
        return "-"
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def duration(seconds: float | None) -> str:
    """In the two largest units that say something."""
    if seconds is None:
        return "-"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    if whole < _MINUTE_S:
        return f"{sign}{whole} s"
    if whole < _HOUR_S:
        return f"{sign}{whole // _MINUTE_S} min"
    if whole < _DAY_S:
        return f"{sign}{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{sign}{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"
