"""Renders chains and decisions for the terminal, from the service's answers."""

from mirage_slurm.client.printable import escape_unprintable
from mirage_slurm.command.grammar import MAX_LINKS
from mirage_slurm.command.instants import (
    HOUR_S,
    MINUTE_S,
    format_day_and_time,
    format_duration,
    format_epoch,
    format_instant,
)
from mirage_slurm.command.tables import render_table
from mirage_slurm.planner.lead_rules import look_up_return_lead

_COLUMNS = (
    ("chain", 0),
    ("user", 0),
    ("state", 0),
    ("links", 0),
    ("running", 0),
    ("interrupted", 88),
    ("overlap", 100),
    ("made", 112),
)
"""Columns of a table of chains, with the least width of the terminal that shows each."""

_LINK_COLUMNS = (
    ("link", 0),
    ("job", 0),
    ("state", 0),
    ("waits", 0),
    ("nodes", 96),
    ("limit", 88),
    ("freed", 110),
    ("start", 0),
    ("end", 0),
)
_HANDOVER_COLUMNS = ("hand-over to link", "predecessor ended", "successor began", "gap", "overlap")

_HELD = (
    "held: the link waits for the end of the link before it (afterany). Mirage frees it earlier, so"
    " that it starts when that link ends."
)
_DONE = {"none": "", "intended": "Mirage is telling Slurm.", "done": "Slurm did it."}
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


def render_chain_table(chains, terminal):
    """Return the lines of a table of the chains, with as many columns as fit.

    The ids are never cut, because users copy them into other commands.
    """
    names = [name for name, least in _COLUMNS if terminal.width >= least]
    rows = []
    for chain in chains:
        has_handovers = chain["handovers_done"]
        cells = {
            "chain": chain["chain_id"],
            "user": escape_unprintable(chain["user"]),
            "state": chain["state"],
            "links": format_link_count(chain),
            "running": ", ".join(map(str, chain["running"])) or "-",
            "interrupted": format_duration(chain["interruption_h"] * HOUR_S)
            if has_handovers
            else "-",
            "overlap": format_duration(chain["overlap_h"] * HOUR_S) if has_handovers else "-",
            "made": format_day_and_time(chain["created_at"]),
        }
        rows.append([cells[name] for name in names])
    return render_table(names, rows, ("user",), terminal)


def describe_service_state(answer, modes):
    """Describe the age of the data, and how far Mirage goes.

    `answer` is a chain (the chain's own mode is described) or the overview (all modes are).
    """
    mode = answer.get("service_mode")
    if modes["kill_switch"] and mode != "observe":
        description = _KILLED
    elif mode is not None:
        description = "mode %s for this chain: %s" % (mode, _MODES[mode])
    else:
        means = ": %s" % (_MODES[modes["says"]],) if modes["says"] in _MODES else ""
        description = "mode %s%s" % (escape_unprintable(modes["says"]), means)
    return "%s; %s" % (_describe_age(answer), description)


def _describe_age(answer):
    if not answer["as_of"]:
        return "queue not read yet"
    delay_note = ", and not since: the service is late" if answer["stale"] else ""
    return "queue read %s%s" % (format_instant(answer["as_of"]), delay_note)


def list_chain_notes(chains):
    """List the notes about chains that have a problem: sentences do not fit into a table."""
    for chain in chains:
        if chain["note"] and chain["state"] not in ("finished", "cancelled"):
            yield "%s: %s" % (chain["chain_id"], chain["note"])


def format_link_count(chain):
    """Format links begun of links planned; with --mirage-total the total time instead."""
    planned = chain["links_planned"]
    if chain.get("total_s") and planned == MAX_LINKS:
        return "%s, %s in all" % (chain["links_started"], format_duration(chain["total_s"]))
    return "%s of %s" % (chain["links_started"], planned or "?")


def list_sentences_before(chain):
    """List what stands between a chain's row and its timeline: texts of any length."""
    yield from describe_expected_start(chain)
    if chain["note"] and chain.get("at_risk") is None:
        yield escape_unprintable(chain["note"])
    yield from describe_price(chain)


def list_sentences_after(chain):
    """List what stands below a chain's links: texts of any length."""
    if any(link["state"] == "pending" and link["position"] == "held" for link in chain["links"]):
        yield _HELD
    yield from list_warnings(chain)


def list_warnings(chain):
    """List what the chain's owner should know: returns, a risk, that nobody registered the chain."""
    for describe in (describe_returns, describe_risk, describe_unregistered):
        yield from describe(chain)


def render_links(links, terminal):
    """Return the lines of a table of a chain's links."""
    names = [name for name, least in _LINK_COLUMNS if terminal.width >= least]
    jobs = {link["index"]: link["job_id"] for link in links}
    rows = []
    for link in links:
        cells = {
            "link": str(link["index"]),
            "job": str(link["job_id"]),
            "state": link["end_state"] or link["state"],
            "waits": _describe_wait(link, jobs),
            "nodes": str(link["nodes"]),
            "limit": "unlimited" if link["unlimited"] else format_duration(link["time_limit_s"]),
            "freed": format_day_and_time(link["freed_at"]),
            "start": format_day_and_time(link["start"]),
            "end": format_day_and_time(link["end"]),
        }
        rows.append([cells[name] for name in names])
    return render_table(names, rows, ("waits",), terminal)


def render_handovers(handovers, terminal):
    """Return the lines of a table of a chain's hand-overs."""
    rows = [
        [
            str(handover["link"]),
            format_day_and_time(handover["predecessor_end"]),
            format_day_and_time(handover["successor_start"]),
            format_duration(handover["interruption_h"] * HOUR_S),
            format_duration(handover["overlap_h"] * HOUR_S),
        ]
        for handover in handovers
    ]
    return render_table(_HANDOVER_COLUMNS, rows, _HANDOVER_COLUMNS, terminal)


def _describe_wait(link, jobs):
    """Say what a link waits for; empty for a link that runs or has ended."""
    predecessor = link.get("waits_for")
    if predecessor is not None:
        return "waits for link %s (job %s)" % (predecessor, jobs.get(predecessor, "?"))
    if link["state"] != "pending":
        return ""
    reason = escape_unprintable(link.get("reason", ""))
    reason_text = "" if reason in ("", "None", "Dependency") else ": " + reason
    until = link.get("planned_release") if link["position"] == "held" else None
    at_most = "" if until is None else ", until %s at the latest" % (format_day_and_time(until),)
    return link["position"] + at_most + reason_text


def describe_price(chain):
    """Describe what an hour of overlap costs, and why; yields nothing for an older service."""
    reason = chain.get("overlap_price_why")
    if reason is not None:
        yield "An hour of overlap costs %g h of interruption (%s)." % (
            chain["overlap_price"],
            reason,
        )


def describe_expected_start(chain):
    """Describe when the next link starts; yields nothing where nothing foretells it."""
    start = chain.get("expected_start")
    if start is not None:
        at, first, last = (
            format_day_and_time(start[name]) for name in ("at", "earliest", "latest")
        )
        span = "" if first == last else " (8 of 10 times between %s and %s)" % (first, last)
        yield "Link %s is expected to start at %s%s." % (start["link"], at, span)


def describe_returns(chain):
    """Describe how often links may give their nodes back, and which did; yields nothing for an
    older service."""
    if chain.get("max_returns", 0):
        yield "A link that starts early gives its nodes back at most %s." % (
            _format_times(chain["max_returns"]),
        )
    for link in chain["links"]:
        if link.get("returns", 0):
            yield (
                "Link %s gave its nodes back %s, as the link before it ran for long yet: it had held them "
                "for %.1f node-minutes."
                % (
                    link["index"],
                    _format_times(link["returns"]),
                    link["returned_node_h"] * HOUR_S / MINUTE_S,
                )
            )


def _format_times(count):
    return "once" if count == 1 else "%s times" % (count,)


def describe_risk(chain):
    """Describe the risk of a chain and what to do; yields nothing for a chain not at risk."""
    risk = chain.get("at_risk")
    if risk is not None:
        yield "At risk (%s): %s. %s" % (risk["reason"], risk["says"], risk["advice"])


def describe_unregistered(chain):
    """Describe the settings of a chain that nobody registered, and why they count; yields nothing
    for any other chain."""
    if chain["links_planned"] is None:
        yield explain_unregistered(chain["style"], chain["max_overlap_s"])


def explain_unregistered(style, max_overlap_s):
    """Return which settings count for a chain that nobody registered, and why. Pages say the same."""
    minutes = max_overlap_s // MINUTE_S if max_overlap_s else 0
    return (
        "Nobody registered this chain: Mirage found it by the comment of its jobs. A setting that "
        "the comment lacks has its strictest value: style %s, %s. "
        "`sbatch --mirage-chain` registers a chain if the service answers."
        % (
            style or "concurrent",
            "an overlap of %d min at most" % (minutes,) if max_overlap_s else "no overlap",
        )
    )


def format_decision(row):
    """Describe a decision in sentences: action, reason, data and effect."""
    standby = row["inputs"].get("standby")
    job = "" if standby is None else " (job %s)" % (standby,)
    lines = [
        "%s  link %s%s, policy %s" % (format_instant(row["at"]), row["link"], job, row["policy"]),
        _describe_action(row),
        "Why: %s." % (row["reason"],),
    ]
    lines += _describe_inputs(row)
    return "\n  ".join(map(escape_unprintable, lines))


def _describe_action(row):
    action = _ACTION[row["action"]]
    if row["action"] == "wait" and row["inputs"].get("planned_release") is not None:
        until = format_epoch(row["inputs"]["planned_release"])
        action = "left the planned release as it is: Slurm makes the standby eligible at " + until
    if row["action"] != "wait" and row["mode"] != "act":
        return "Would have %s: mode %s changes nothing in Slurm.%s" % (
            action,
            row["mode"],
            _describe_repeats(row),
        )
    error = ": " + row["error"] if row["error"] else ""
    if row["effect"] in _NOT_DONE:
        return "Would have %s, but %s%s%s" % (
            action,
            _NOT_DONE[row["effect"]],
            error,
            _describe_repeats(row),
        )
    outcome = "%s. %s%s" % (action[:1].upper() + action[1:], _DONE[row["effect"]], error)
    return outcome.rstrip() + _describe_repeats(row)


def _describe_repeats(row):
    if not row["repeats"]:
        return ""
    return " Decided %s more times until %s." % (row["repeats"], format_instant(row["last_at"]))


def _describe_inputs(row):
    if row["time_left_s"] is not None:
        yield "The running link's time limit leaves %s." % (format_duration(row["time_left_s"]),)
    if row["forecast"] is not None:
        yield _describe_forecast(row["forecast"])
    costs = row["inputs"].get("return_costs")
    if costs is not None and row["time_left_s"] is not None:
        points = list(zip(costs["left_s"], costs["cost_s"], costs["lead_s"]))
        lead_s = look_up_return_lead(points, row["time_left_s"], costs["price"])
        back = "give its nodes back and be released again %s before the end" % (
            format_duration(lead_s),
        )
        yield "Should the link start at once, it would by this forecast %s." % (
            "keep its nodes" if lead_s is None else back,)  # fmt: skip


def _describe_forecast(forecast):
    spread = ""
    if forecast["p10_s"] is not None and forecast["p90_s"] is not None:
        low, high = format_duration(forecast["p10_s"]), format_duration(forecast["p90_s"])
        spread = " (%s to %s in 8 of 10 cases)" % (low, high)
    count = forecast["samples"]
    source = ", from %s wait%s" % (count, "s" if count > 1 else "") if count else ""
    return "Forecast wait if freed now: %s%s%s." % (
        format_duration(forecast["p50_s"]),
        spread,
        source,
    )
