"""Draws a chain to scale: its links over time, and its hand-overs close up."""

from collections.abc import Sequence

from markupsafe import Markup

from mirage.domain.chain import Link
from mirage.domain.time_units import HOUR_S
from mirage.reports.chain_timeline import ChainTimeline, TimelineHandover
from mirage.web.charts import svg
from mirage.web.charts.scales import HoursScale, TimeScale
from mirage.web.formatting import format_day, format_duration, format_hours

_WIDTH = 1240
_LANE, _LINK = 34, 16
_TOP = 26
_LEAST_LABEL = 14
_NEWEST = 30
"""Hand-overs that are drawn close up."""
EVEN = "even"
"""CSS class of neither interruption nor overlap: the link started in the second when the link
before ended."""


def draw_links(found: ChainTimeline, now: int, says: str = "now") -> Markup:
    """Draw the links in two lanes by turns, and each gap or overlap between them.

    `now` is when the queue was read, in epoch seconds; `says` labels that instant.
    """
    ran = [link for link in found.links if link.start is not None]
    if not ran:
        return Markup("")
    scale = _build_time_scale(found, ran, now)
    bottom = _TOP + 2 * _LANE
    parts = [svg.draw_x_axis(scale, top=_TOP - 8, bottom=bottom)]
    parts += [part for handover in found.handovers for part in _draw_handover(handover, scale, now)]
    parts += [part for link in ran for part in _draw_link(link, scale, now)]
    parts.append(svg.draw_rule(scale(now), _TOP - 10, scale(now), bottom, cls="now", says=says))
    parts.append(svg.draw_text(scale(now), _TOP - 14, says, cls="tick", anchor="middle"))
    desc = (
        f"{len(ran)} links from {format_day(ran[0].start or now, now)} on. "
        f"{format_hours(found.interruption_h)} of interruption and "
        f"{format_hours(found.overlap_h)} of overlap in all."
    )
    title = "The chain's links over time, to scale"
    return svg.draw_figure(_WIDTH, bottom + 24, parts, name="links", title=title, desc=desc)


def _build_time_scale(found: ChainTimeline, ran: Sequence[Link], now: int) -> TimeScale:
    ends = [link.end or link.get_planned_end() or now for link in ran]
    late = [h.forecast.p90 for h in found.handovers if h.forecast and h.successor.start is None]
    first = min(min(link.eligible or link.start or now, link.start or now) for link in ran)
    last = max([now, *ends, *late])
    margin = max(600, (last - first) // 60)
    return TimeScale(first - margin, last + margin, 10, _WIDTH - 10)


def _get_lane_y(index: int) -> float:
    return _TOP + (index % 2 == 0) * _LANE + (_LANE - _LINK) / 2


def _draw_link(link: Link, scale: TimeScale, now: int) -> list[Markup]:
    start, y = link.start or now, _get_lane_y(link.index)
    ended = link.end is not None
    end = max(now, start) if link.end is None else link.end
    planned = link.get_planned_end()
    parts = []
    if link.eligible is not None and link.eligible < start:
        middle = y + _LINK / 2
        says = f"link {link.index} waited {format_duration(start - link.eligible)} once eligible"
        parts.append(
            svg.draw_rule(
                scale(link.eligible), middle, scale(start), middle, cls="waited", says=says
            )
        )
    says = f"link {link.index} (job {link.job_id}) ran {format_duration(end - start)}"
    says = (
        says
        if ended
        else f"link {link.index} (job {link.job_id}) runs since {format_day(start, now)}"
    )
    width = scale(end) - scale(start)
    parts.append(
        svg.draw_bar(scale(start), y, width, _LINK, cls="done" if ended else "run", says=says)
    )
    if not ended and planned is not None and planned > end:
        rest = scale(planned) - scale(end)
        says = f"link {link.index} may run until {format_day(planned, now)}"
        parts.append(svg.draw_bar(scale(end), y, rest, _LINK, cls="rest", says=says))
    if width > _LEAST_LABEL:
        middle = scale(start) + width / 2
        parts.append(
            svg.draw_text(middle, y + _LINK - 4, str(link.index), cls="on", anchor="middle")
        )
    return parts


def _draw_handover(handover: TimelineHandover, scale: TimeScale, now: int) -> list[Markup]:
    """Draw a hand-over across both lanes, so that a gap of minutes in weeks is still a line."""
    over, index = handover.over, handover.successor.index
    height = 2.0 * _LANE
    if over is not None and over.interruption_h:
        says = f"interruption before link {index}: {format_hours(over.interruption_h)}"
        x = scale(over.predecessor_end)
        width = scale(over.successor_start) - x
        return [svg.draw_bar(x, _TOP, max(width, 2), height, cls="gap", says=says)]
    if over is not None and over.overlap_h:
        says = f"overlap with link {index}: {format_hours(over.overlap_h)}"
        x = scale(over.successor_start)
        width = scale(over.predecessor_end) - x
        return [svg.draw_bar(x, _TOP, max(width, 2), height, cls="lap", says=says)]
    if handover.successor.start is None and handover.forecast is not None:
        made, y = handover.forecast, _get_lane_y(index)
        begin, end = (max(now, at) for at in (made.p10, made.p90))
        cls = "range free" if made.is_free else "range"
        soonest, latest = format_day(made.p10, now), format_day(made.p90, now)
        says = f"forecast: link {index} starts {soonest} to {latest}"
        width = scale(end) - scale(begin)
        return [svg.draw_bar(scale(begin), y + 3, width, _LINK - 6, cls=cls, says=says)]
    return []


_ROW = 26
_LEFT, _RIGHT = 90, 24


def draw_handovers(found: ChainTimeline) -> Markup:
    """Draw each complete hand-over around its predecessor's end: the forecast and the outcome."""
    rows = [h for h in found.handovers if h.over is not None][-_NEWEST:]
    if not rows:
        return Markup("")
    scale = _build_hours_scale(rows)
    bottom = _TOP + _ROW * len(rows)
    label = "hours after the end of the link before"
    parts = [svg.draw_x_axis(scale, top=_TOP - 8, bottom=bottom, label=label)]
    parts.append(
        svg.draw_rule(scale(0), _TOP - 8, scale(0), bottom, cls="end", says="the link before ends")
    )
    for place, row in enumerate(rows):
        parts += _draw_close_up(row, scale, _TOP + place * _ROW + _ROW / 2)
    desc = " ".join(f"{_describe_handover(row)}." for row in rows)
    title = "Hand-overs close up: forecast and outcome"
    return svg.draw_figure(_WIDTH, bottom + 40, parts, name="close", title=title, desc=desc)


def _build_hours_scale(rows: Sequence[TimelineHandover]) -> HoursScale:
    reach = [_compute_hours_after(row, at) for row in rows for at in _list_instants(row)]
    low, high = min([-1.0, *reach]), max([1.0, *reach])
    margin = 0.03 * (high - low)
    return HoursScale(low - margin, high + margin, _LEFT, _WIDTH - _RIGHT)


def _list_instants(row: TimelineHandover) -> list[int]:
    made = row.forecast
    start = [row.successor.start] if row.successor.start is not None else []
    return start + ([] if made is None else [made.p10, made.p90])


def _compute_hours_after(row: TimelineHandover, at: int) -> float:
    return (at - (row.ends or at)) / HOUR_S


def _draw_close_up(row: TimelineHandover, scale: HoursScale, y: float) -> list[Markup]:
    over, made = row.over, row.forecast
    parts = [
        svg.draw_text(_LEFT - 10, y + 4, f"link {row.successor.index}", cls="tick", anchor="end")
    ]
    if over is None:
        return parts
    if made is not None:
        begin, median, end = (
            scale(_compute_hours_after(row, at)) for at in (made.p10, made.p50, made.p90)
        )
        parts.append(
            svg.draw_bar(begin, y - 4, end - begin, 8, cls="range", says=_describe_forecast(row))
        )
        parts.append(svg.draw_diamond(median, y, cls="median", radius=4))
    at = scale(_compute_hours_after(row, over.successor_start))
    cls = classify_outcome(over.successor_start - over.predecessor_end)
    low, high = min(at, scale(0)), max(at, scale(0))
    if cls != EVEN:
        parts.append(
            svg.draw_bar(low, y - 1.5, high - low, 3, cls=cls, says=_describe_handover(row))
        )
    parts.append(svg.draw_dot(at, y, cls=f"dot {cls}", says=_describe_handover(row), radius=5))
    return parts


def classify_outcome(late: float) -> str:
    """Return the CSS class of a link that started `late` seconds after its predecessor's end.

    A negative number means that the two links overlapped.
    """
    if late:
        return "gap" if late > 0 else "lap"
    return EVEN


def _describe_forecast(row: TimelineHandover) -> str:
    made = row.forecast
    if made is None:
        return "no forecast"
    low, high = (f"{_compute_hours_after(row, at):+.1f} h" for at in (made.p10, made.p90))
    return f"forecast of link {row.successor.index}: {low} to {high} after the link before ended"


def _describe_handover(row: TimelineHandover) -> str:
    over = row.over
    if over is None:
        return f"link {row.successor.index} has not started yet"
    parts = ((over.interruption_h, "interruption"), (over.overlap_h, "overlap"))
    kinds = [f"{format_hours(hours)} of {word}" for hours, word in parts if hours]
    kind = " and ".join(kinds) or "neither interruption nor overlap"
    return f"hand-over to link {row.successor.index}: {kind}; {_describe_forecast(row)}"
