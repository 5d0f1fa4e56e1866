"""Builds the drawing's rows from a chain's timeline, as the service serves it.

Spans of links are in epoch seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

TimeSpan = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One link. Spans are (from, until); None where there is none."""

    index: int
    job_id: int
    waits: TimeSpan | None = None
    """The link is eligible and has not started."""
    interruption: TimeSpan | None = None
    """No link ran: from its predecessor's end until this link started, or until now."""
    runs: TimeSpan | None = None
    overlap: TimeSpan | None = None
    """This link ran at the same time as its predecessor."""
    rest: TimeSpan | None = None
    """From now to the end by its time limit."""
    forecast: tuple[float, float, float] | None = None
    """Forecast start: p10, p50, p90, epoch seconds."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    now: float
    rows: Sequence[LinkRow]

    @property
    def span(self) -> TimeSpan:
        """Return the first and the last instant to draw; the last is at least a second later."""
        instants = [at for row in self.rows for at in _list_instants(row)]
        begin, end = min(instants, default=self.now), max(instants, default=self.now)
        return begin, max(end, begin + 1.0)


def build_timeline(answer: Mapping[str, Any], *, newest: int) -> Timeline:
    """Build the drawing of the service's answer to `GET /chains/ID/timeline`.

    `newest`: the most links to show. The service alone says which link hands over to which.
    """
    links, now = answer["links"], _compute_now(answer)
    handovers = {handover["link"]: handover for handover in answer["handovers"]}
    rows = [_build_row(link, handovers.get(link["index"]), now) for link in links[-newest:]]
    return Timeline(now=now, rows=rows)


def _compute_now(answer: Mapping[str, Any]) -> float:
    """Return when the cluster was last looked at; nothing later is known."""
    instants = [_parse_instant(answer["as_of"])]
    instants += [
        _parse_instant(link[name]) for link in answer["links"] for name in ("start", "end")
    ]
    return max((at for at in instants if at is not None), default=0.0)


def _build_row(link: Mapping[str, Any], handover: Mapping[str, Any] | None, now: float) -> LinkRow:
    start, end, eligible = (
        _parse_instant(link["start"]),
        _parse_instant(link["end"]),
        _parse_instant(link["eligible"]),
    )
    waited_until = now if link["state"] == "pending" else start
    predecessor_end = overlap_end = None
    if handover is not None:
        predecessor_end = _parse_instant(handover["predecessor_end"])
        predecessor_end, overlap_end = (
            (predecessor_end, predecessor_end) if handover["predecessor_ended"] else (None, now)
        )
    return LinkRow(
        index=link["index"],
        job_id=link["job_id"],
        waits=_make_span(eligible, waited_until),
        interruption=_make_span(predecessor_end, waited_until),
        runs=_make_span(start, end or now),
        overlap=None
        if start is None or overlap_end is None
        else _make_span(start, min(overlap_end, end or now)),
        rest=_compute_rest(link, start, now),
        forecast=_find_forecast(link, handover, now),
        note=_describe_state(link),
    )


def _compute_rest(link: Mapping[str, Any], start: float | None, now: float) -> TimeSpan | None:
    limit = link["time_limit_s"]
    if link["state"] != "running" or start is None or limit is None:
        return None
    return _make_span(now, start + limit)


def _find_forecast(
    link: Mapping[str, Any], handover: Mapping[str, Any] | None, now: float
) -> tuple[float, float, float] | None:
    """Return p10, p50 and p90 of a pending link's start, from the newest forecast.

    None of the three lies before `now`. Returns None if the link is not pending or has no forecast.
    """
    if link["state"] != "pending" or handover is None or handover["forecast"] is None:
        return None
    forecast = handover["forecast"]
    p10, p50, p90 = (
        max(now, _parse_instant(forecast[name]) or now) for name in ("p10", "p50", "p90")
    )
    return p10, p50, p90


def _describe_state(link: Mapping[str, Any]) -> str:
    if link["state"] == "pending":
        return f"waits, {link['position']}"
    if link["state"] == "running":
        return "runs"
    return str(link["end_state"] or "ended").lower().replace("_", " ")


def _make_span(begin: float | None, end: float | None) -> TimeSpan | None:
    return None if begin is None or end is None or end <= begin else (begin, end)


def _parse_instant(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _list_instants(row: LinkRow) -> list[float]:
    spans = [row.waits, row.interruption, row.runs, row.overlap, row.rest, row.forecast]
    return [at for span in spans if span is not None for at in span]
