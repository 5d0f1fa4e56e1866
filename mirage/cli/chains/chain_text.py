"""Renders chains and decisions for the terminal. Times are in this host's zone, as in squeue."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Column, Table

from mirage.cli.chains import timeline_text
from mirage.cli.chains.timeline_rows import Timeline
from mirage.domain.chain import MAX_LINKS
from mirage.domain.sanitize import escape_unprintable
from mirage.policies.rules.return_rule import look_up_return_lead

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400

_COLUMNS = {
    "chain": 0,
    "user": 0,
    "state": 0,
    "links": 0,
    "running": 0,
    "interrupted": 88,
    "overlap": 100,
    "made": 112,
}
"""Columns of a table of chains, with the least width of the terminal that shows each."""

_LINK_COLUMNS = {
    "link": 0,
    "job": 0,
    "state": 0,
    "waits": 0,
    "nodes": 96,
    "limit": 88,
    "freed": 110,
    "start": 0,
    "end": 0,
}

_YEAR = len("2027-")
_DEPENDENCY = "Dependency"
_HELD = (
    "held: the link waits for the end of the link before it (afterany). Mirage frees it earlier, so"
    " that it starts when that link ends."
)

_DONE = {
    "none": "",
    "intended": "Mirage is telling Slurm.",
    "done": "Slurm did it.",
}
_NOT_DONE = {
    "refused": "Slurm refused",
    "failed": "Slurm did not do it",
    "given_up": "the standby had changed since Mirage's look at the queue",
}
_MODES = {
    "act": "Mirage moves the next links",
    "shadow": "Mirage decides and logs, and changes nothing in Slurm",
    "observe": "Mirage records the queue, and decides nothing",
}
_KILLED = "the kill switch is pulled: Mirage changes nothing in Slurm by itself"
_ACTION = {
    "wait": "left the standby as it is",
    "free": "freed the standby, so that it may start at once",
    "pin": "pinned the standby to its predecessor's nodes",
    "hold": "put the standby back behind its predecessor",
    "plan": "wrote a release time into the standby's dependency, for Slurm to carry out",
    "submit": "asked the running link to submit the next link",
}


def render_chain_table(chains: Iterable[Mapping[str, Any]], width: int) -> Table:
    """Return a table of the chains, with as many columns as fit into `width` characters.

    The ids are never cut, because users copy them into other commands.
    """
    columns = [name for name, least in _COLUMNS.items() if width >= least]
    table = Table(*(Column(name, no_wrap=name != "user") for name in columns))
    for chain in chains:
        has_handovers = chain["handovers_done"]
        cells = {
            "chain": chain["chain_id"],
            "user": _escape_text(chain["user"]),
            "state": chain["state"],
            "links": format_link_count(chain),
            "running": ", ".join(map(str, chain["running"])) or "-",
            "interrupted": format_duration(chain["interruption_h"] * _HOUR_S)
            if has_handovers
            else "-",
            "overlap": format_duration(chain["overlap_h"] * _HOUR_S) if has_handovers else "-",
            "made": format_day_and_time(chain["created_at"]),
        }
        table.add_row(*(cells[name] for name in columns))
    return table


def describe_service_state(answer: Mapping[str, Any], modes: Mapping[str, Any]) -> str:
    """Describe the age of the data, and how far Mirage goes.

    `answer` is a chain (the chain's own mode is described) or the overview (all modes are).
    """
    mode = answer.get("service_mode")
    if modes["kill_switch"] and mode != "observe":
        description = _KILLED
    elif mode is not None:
        description = f"mode {mode} for this chain: {_MODES[mode]}"
    else:
        means = f": {_MODES[modes['says']]}" if modes["says"] in _MODES else ""
        description = f"mode {escape(escape_unprintable(modes['says']))}{means}"
    return f"{_describe_age(answer)}; {description}"


def _describe_age(answer: Mapping[str, Any]) -> str:
    if not answer["as_of"]:
        return "queue not read yet"
    delay_note = ", and not since: the service is late" * answer["stale"]
    return f"queue read {format_instant(answer['as_of'])}{delay_note}"


def list_chain_notes(chains: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """List the notes about chains that have a problem.

    Sentences do not fit into a table.
    """
    for chain in chains:
        if chain["note"] and chain["state"] not in {"finished", "cancelled"}:
            yield f"{chain['chain_id']}: {escape_unprintable(chain['note'])}"


def format_link_count(chain: Mapping[str, Any]) -> str:
    """Format links begun of links planned; with --mirage-total the total time instead."""
    planned = chain["links_planned"]
    if chain.get("total_s") and planned == MAX_LINKS:
        return f"{chain['links_started']}, {format_duration(chain['total_s'])} in all"
    return f"{chain['links_started']} of {planned or '?'}"


def _escape_text(text: str) -> str:
    """Return a text of a user or of Slurm for a table, without markup and control characters."""
    return escape(escape_unprintable(text))


def draw_timeline(timeline: Timeline, out: Console) -> Iterator[RenderableType]:
    """Yield the lines of the timeline, as wide as the console."""
    width, ascii_only = out.width, out.options.ascii_only
    for line in timeline_text.draw_lines(timeline, width, ascii_only=ascii_only):
        line.no_wrap, line.overflow = True, "crop"
        yield line


def render_chain_page(
    chain: Mapping[str, Any], width: int, timeline_lines: Iterable[RenderableType] = ()
) -> Iterator[RenderableType]:
    """Yield the parts of a chain's page; `timeline_lines` is its timeline, line by line."""
    yield render_chain_table([chain], width)
    yield from map(escape, describe_expected_start(chain))
    if chain["note"] and chain.get("at_risk") is None:
        yield escape(escape_unprintable(chain["note"]))
    yield from map(escape, describe_price(chain))
    yield from timeline_lines
    yield _render_links(chain["links"], width)
    if any(link["state"] == "pending" and link["position"] == "held" for link in chain["links"]):
        yield _HELD
    yield from map(escape, describe_returns(chain))
    yield from map(escape, describe_risk(chain))
    yield from map(escape, describe_unregistered(chain))
    if not chain["handovers"]:
        return
    handovers = Table("hand-over to link", "predecessor ended", "successor began", "gap", "overlap")
    for handover in chain["handovers"]:
        handovers.add_row(
            str(handover["link"]),
            format_day_and_time(handover["predecessor_end"]),
            format_day_and_time(handover["successor_start"]),
            format_duration(handover["interruption_h"] * _HOUR_S),
            format_duration(handover["overlap_h"] * _HOUR_S),
        )
    yield handovers


def _render_links(links: Sequence[Mapping[str, Any]], width: int) -> Table:
    columns = [name for name, least in _LINK_COLUMNS.items() if width >= least]
    table = Table(*(Column(name, no_wrap=name != "waits") for name in columns))
    jobs = {link["index"]: link["job_id"] for link in links}
    for link in links:
        cells = {
            "link": str(link["index"]),
            "job": str(link["job_id"]),
            "state": link["end_state"] or link["state"],
            "waits": escape(_describe_wait(link, jobs)),
            "nodes": str(link["nodes"]),
            "limit": "unlimited" if link["unlimited"] else format_duration(link["time_limit_s"]),
            "freed": format_day_and_time(link["freed_at"]),
            "start": format_day_and_time(link["start"]),
            "end": format_day_and_time(link["end"]),
        }
        table.add_row(*(cells[name] for name in columns))
    return table


def _describe_wait(link: Mapping[str, Any], jobs: Mapping[int, int]) -> str:
    """Say what a link waits for; empty for a link that runs or has ended."""
    if (predecessor := link.get("waits_for")) is not None:
        return f"waits for link {predecessor} (job {jobs.get(predecessor, '?')})"
    if link["state"] != "pending":
        return ""
    reason = escape_unprintable(link.get("reason", ""))
    reason_text = "" if reason in {"", "None", _DEPENDENCY} else f": {reason}"
    until = link.get("planned_release") if link["position"] == "held" else None
    at_most = "" if until is None else f", until {format_day_and_time(until)} at the latest"
    return f"{link['position']}{at_most}{reason_text}"


def describe_price(chain: Mapping[str, Any]) -> Iterator[str]:
    """Describe what an hour of overlap costs, and why; yields nothing for an older service."""
    reason = chain.get("overlap_price_why")
    if reason is not None:
        yield f"An hour of overlap costs {chain['overlap_price']:g} h of interruption ({reason})."


def describe_expected_start(chain: Mapping[str, Any]) -> Iterator[str]:
    """Describe when the next link starts; yields nothing where nothing foretells it."""
    start = chain.get("expected_start")
    if start is not None:
        at, first, last = map(
            format_day_and_time, (start["at"], start["earliest"], start["latest"])
        )
        range_text = "" if first == last else f" (8 of 10 times between {first} and {last})"
        yield f"Link {start['link']} is expected to start at {at}{range_text}."


def describe_returns(chain: Mapping[str, Any]) -> Iterator[str]:
    """Describe how often links may give their nodes back, and which did; yields nothing for an
    older service."""
    if most := chain.get("max_returns", 0):
        yield f"A link that starts early gives its nodes back at most {_format_times(most)}."
    for link in chain["links"]:
        if count := link.get("returns", 0):
            minutes = link["returned_node_h"] * _HOUR_S / _MINUTE_S
            yield (
                f"Link {link['index']} gave its nodes back {_format_times(count)}, as the link "
                f"before it ran for long yet: it had held them for {minutes:.1f} node-minutes."
            )


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def describe_risk(chain: Mapping[str, Any]) -> Iterator[str]:
    """Describe the risk of a chain and what to do; yields nothing for a chain not at risk."""
    risk = chain.get("at_risk")
    if risk is not None:
        yield f"At risk ({risk['reason']}): {risk['says']}. {risk['advice']}"


def describe_unregistered(chain: Mapping[str, Any]) -> Iterator[str]:
    """Describe the rules for a chain that nobody registered.

    Yields nothing for any other chain.
    """
    if chain["links_planned"] is None:
        from mirage.chains import explanations  # noqa: PLC0415 - it loads the database

        yield explanations.explain_unregistered(chain["style"], chain["max_overlap_s"])


def format_decision(row: Mapping[str, Any]) -> str:
    """Describe a decision in sentences: action, reason, data and effect."""
    standby = row["inputs"].get("standby")
    job = "" if standby is None else f" (job {standby})"
    lines = [
        f"{format_instant(row['at'])}  link {row['link']}{job}, policy {row['policy']}",
        _describe_action(row),
        f"Why: {row['reason']}.",
        *_describe_inputs(row),
    ]
    return "\n  ".join(map(escape_unprintable, lines))


def _describe_action(row: Mapping[str, Any]) -> str:
    action = _ACTION[row["action"]]
    if row["action"] == "wait" and (at := row["inputs"].get("planned_release")) is not None:
        until = format_instant(datetime.fromtimestamp(at, UTC).isoformat())
        action = f"left the planned release as it is: Slurm makes the standby eligible at {until}"
    if row["action"] != "wait" and row["mode"] != "act":
        return (
            f"Would have {action}: mode {row['mode']} changes nothing in Slurm."
            f"{_describe_repeats(row)}"
        )
    error = f": {row['error']}" if row["error"] else ""
    if row["effect"] in _NOT_DONE:
        return f"Would have {action}, but {_NOT_DONE[row['effect']]}{error}{_describe_repeats(row)}"
    outcome = _DONE[row["effect"]]
    return f"{action[:1].upper()}{action[1:]}. {outcome}{error}".rstrip() + _describe_repeats(row)


def _describe_repeats(row: Mapping[str, Any]) -> str:
    if not row["repeats"]:
        return ""
    return f" Decided {row['repeats']} more times until {format_instant(row['last_at'])}."


def _describe_inputs(row: Mapping[str, Any]) -> Iterator[str]:
    if row["time_left_s"] is not None:
        yield f"The running link's time limit leaves {format_duration(row['time_left_s'])}."
    yield from _describe_forecast(row)
    costs = row["inputs"].get("return_costs")
    if costs is not None and row["time_left_s"] is not None:
        points = list(zip(costs["left_s"], costs["cost_s"], costs["lead_s"], strict=True))
        lead_s = look_up_return_lead(points, row["time_left_s"], costs["price"])
        back = f"give its nodes back and be released again {format_duration(lead_s)} before the end"
        verdict = "keep its nodes" if lead_s is None else back
        yield f"Should the link start at once, it would by this forecast {verdict}."


def _describe_forecast(row: Mapping[str, Any]) -> Iterator[str]:
    forecast = row["forecast"]
    if forecast is None:
        return
    spread = ""
    if forecast["p10_s"] is not None and forecast["p90_s"] is not None:
        low, high = format_duration(forecast["p10_s"]), format_duration(forecast["p90_s"])
        spread = f" ({low} to {high} in 8 of 10 cases)"
    count = forecast["samples"]
    source = f", from {count} wait{'s' * (count > 1)}" if count else ""
    yield f"Forecast wait if freed now: {format_duration(forecast['p50_s'])}{spread}{source}."


def format_instant(text: str | None) -> str:
    """Format an RFC 3339 instant in this host's time zone, to the minute; `-` for None."""
    if text is None:
        return "-"
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def format_day_and_time(text: str | None) -> str:
    """Format an instant as day and time, for places where the reader knows the year."""
    return format_instant(text)[_YEAR:] if text else format_instant(text)


def format_duration(seconds: float | None) -> str:
    """Format a duration in its one or two largest units; `-` for None."""
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
