"""Builds the drawing's rows from a chain's timeline, as the service serves it.

Spans of links are tuples (from, until) in epoch seconds; None where there is none.
"""

from mirage_slurm.command.instants import parse_instant


class LinkRow(object):
    """One link.

    `waits`: the link is eligible and has not started. `interruption`: no link ran, from its
    predecessor's end until this link started, or until now. `overlap`: this link ran at the same time
    as its predecessor. `rest`: from now to the end by its time limit. `forecast`: p10, p50 and p90 of
    its start, epoch seconds.
    """

    __slots__ = (
        "forecast",
        "index",
        "interruption",
        "job_id",
        "note",
        "overlap",
        "rest",
        "runs",
        "waits",
    )

    def __init__(self, index, job_id, waits, interruption, runs, overlap, rest, forecast, note):
        self.index = index
        self.job_id = job_id
        self.waits = waits
        self.interruption = interruption
        self.runs = runs
        self.overlap = overlap
        self.rest = rest
        self.forecast = forecast
        self.note = note


class Timeline(object):
    __slots__ = ("now", "rows")

    def __init__(self, now, rows):
        self.now = now
        self.rows = rows

    @property
    def span(self):
        """Return the first and the last instant to draw; the last is at least a second later."""
        instants = [at for row in self.rows for at in _list_instants(row)] or [self.now]
        return min(instants), max(instants + [min(instants) + 1.0])


def build_timeline(answer, newest):
    """Build the drawing of the service's answer to `GET /chains/ID/timeline`.

    `newest`: the most links to show. The service alone says which link hands over to which.
    """
    links, now = answer["links"], _compute_now(answer)
    handovers = {handover["link"]: handover for handover in answer["handovers"]}
    return Timeline(
        now, [_build_row(link, handovers.get(link["index"]), now) for link in links[-newest:]]
    )


def _compute_now(answer):
    """Return when the cluster was last looked at; nothing later is known."""
    texts = [answer["as_of"]] + [
        link[name] for link in answer["links"] for name in ("start", "end")
    ]
    return max([parse_instant(text) for text in texts if text is not None] or [0.0])


def _build_row(link, handover, now):
    start, end, eligible = (parse_instant(link[name]) for name in ("start", "end", "eligible"))
    waited_until = now if link["state"] == "pending" else start
    predecessor_end = overlap_end = None
    if handover is not None:
        predecessor_end = parse_instant(handover["predecessor_end"])
        overlap_end = predecessor_end if handover["predecessor_ended"] else now
        predecessor_end = predecessor_end if handover["predecessor_ended"] else None
    has_overlap = start is not None and overlap_end is not None
    return LinkRow(
        link["index"],
        link["job_id"],
        waits=_make_span(eligible, waited_until),
        interruption=_make_span(predecessor_end, waited_until),
        runs=_make_span(start, end or now),
        overlap=_make_span(start, min(overlap_end, end or now)) if has_overlap else None,
        rest=_compute_rest(link, start, now),
        forecast=_find_forecast(link, handover, now),
        note=_describe_state(link),
    )


def _compute_rest(link, start, now):
    limit = link["time_limit_s"]
    if link["state"] != "running" or start is None or limit is None:
        return None
    return _make_span(now, start + limit)


def _find_forecast(link, handover, now):
    """Return p10, p50 and p90 of a pending link's start, from the newest forecast.

    None of the three lies before `now`. Returns None if the link is not pending or has no forecast.
    """
    if link["state"] != "pending" or handover is None or handover["forecast"] is None:
        return None
    instants = (parse_instant(handover["forecast"][name]) for name in ("p10", "p50", "p90"))
    return tuple(max(now, at or now) for at in instants)


def _describe_state(link):
    if link["state"] == "pending":
        return "waits, %s" % (link["position"],)
    if link["state"] == "running":
        return "runs"
    return str(link["end_state"] or "ended").lower().replace("_", " ")


def _make_span(begin, end):
    return None if begin is None or end is None or end <= begin else (begin, end)


def _list_instants(row):
    spans = (row.waits, row.interruption, row.runs, row.overlap, row.rest, row.forecast)
    return [at for span in spans if span is not None for at in span]
