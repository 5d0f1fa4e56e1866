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


def draw_links(timeline: ChainTimeline, now: int, label: str = "now") -> Markup:
    """Draw the links in two lanes by turns, and each gap or overlap between them.

    `now` is when the queue was read, in epoch seconds; `label` names that instant.
    """
    started = [link for link in timeline.links if link.start is not None]
    if not started:
        return Markup("")
    scale = _build_time_scale(timeline, started, now)
    bottom = _TOP + 2 * _LANE
    parts = [svg.draw_x_axis(scale, top=_TOP - 8, bottom=bottom)]
    parts += [
        part for handover in timeline.handovers for part in _draw_handover(handover, scale, now)
    ]
    parts += [part for link in started for part in _draw_link(link, scale, now)]
    parts.append(svg.draw_rule(scale(now), _TOP - 10, scale(now), bottom, cls="now", tooltip=label))
    parts.append(svg.draw_text(scale(now), _TOP - 14, label, cls="tick", anchor="middle"))
    desc = (
        f"{len(started)} links from {format_day(started[0].start or now, now)} on. "
        f"{format_hours(timeline.interruption_h)} of interruption and "
        f"{format_hours(timeline.overlap_h)} of overlap in all."
    )
    title = "The chain's links over time, to scale"
    return svg.draw_figure(_WIDTH, bottom + 24, parts, name="links", title=title, desc=desc)


def _build_time_scale(timeline: ChainTimeline, started: Sequence[Link], now: int) -> TimeScale:
    ends = [link.end or link.get_planned_end() or now for link in started]
    forecast_ends = [
        h.forecast.p90 for h in timeline.handovers if h.forecast and h.successor.start is None
    ]
    first = min(min(link.eligible or link.start or now, link.start or now) for link in started)
    last = max([now, *ends, *forecast_ends])
    margin = max(600, (last - first) // 60)
    return TimeScale(first - margin, last + margin, 10, _WIDTH - 10)


def _get_lane_y(index: int) -> float:
    return _TOP + (index % 2 == 0) * _LANE + (_LANE - _LINK) / 2


def _draw_link(link: Link, scale: TimeScale, now: int) -> list[Markup]:
    start, y = link.start or now, _get_lane_y(link.index)
    has_ended = link.end is not None
    end = max(now, start) if link.end is None else link.end
    planned_end = link.get_planned_end()
    parts = []
    if link.eligible is not None and link.eligible < start:
        middle = y + _LINK / 2
        tooltip = f"link {link.index} waited {format_duration(start - link.eligible)} once eligible"
        parts.append(
            svg.draw_rule(
                scale(link.eligible), middle, scale(start), middle, cls="waited", tooltip=tooltip
            )
        )
    tooltip = f"link {link.index} (job {link.job_id}) ran {format_duration(end - start)}"
    tooltip = (
        tooltip
        if has_ended
        else f"link {link.index} (job {link.job_id}) runs since {format_day(start, now)}"
    )
    width = scale(end) - scale(start)
    parts.append(
        svg.draw_bar(
            scale(start), y, width, _LINK, cls="done" if has_ended else "run", tooltip=tooltip
        )
    )
    if not has_ended and planned_end is not None and planned_end > end:
        rest = scale(planned_end) - scale(end)
        tooltip = f"link {link.index} may run until {format_day(planned_end, now)}"
        parts.append(svg.draw_bar(scale(end), y, rest, _LINK, cls="rest", tooltip=tooltip))
    if width > _LEAST_LABEL:
        middle = scale(start) + width / 2
        parts.append(
            svg.draw_text(middle, y + _LINK - 4, str(link.index), cls="on", anchor="middle")
        )
    return parts


def _draw_handover(handover: TimelineHandover, scale: TimeScale, now: int) -> list[Markup]:
    """Draw a hand-over across both lanes, so that a gap of minutes in weeks is still a line."""
    outcome, index = handover.over, handover.successor.index
    height = 2.0 * _LANE
    if outcome is not None and outcome.interruption_h:
        tooltip = f"interruption before link {index}: {format_hours(outcome.interruption_h)}"
        x = scale(outcome.predecessor_end)
        width = scale(outcome.successor_start) - x
        return [svg.draw_bar(x, _TOP, max(width, 2), height, cls="gap", tooltip=tooltip)]
    if outcome is not None and outcome.overlap_h:
        tooltip = f"overlap with link {index}: {format_hours(outcome.overlap_h)}"
        x = scale(outcome.successor_start)
        width = scale(outcome.predecessor_end) - x
        return [svg.draw_bar(x, _TOP, max(width, 2), height, cls="lap", tooltip=tooltip)]
    if handover.successor.start is None and handover.forecast is not None:
        forecast, y = handover.forecast, _get_lane_y(index)
        begin, end = (max(now, at) for at in (forecast.p10, forecast.p90))
        cls = "range free" if forecast.is_free else "range"
        soonest, latest = format_day(forecast.p10, now), format_day(forecast.p90, now)
        tooltip = f"forecast: link {index} starts {soonest} to {latest}"
        width = scale(end) - scale(begin)
        return [svg.draw_bar(scale(begin), y + 3, width, _LINK - 6, cls=cls, tooltip=tooltip)]
    return []


_ROW = 26
_LEFT, _RIGHT = 90, 24


def draw_handovers(timeline: ChainTimeline) -> Markup:
    """Draw each complete hand-over around its predecessor's end: the forecast and the outcome."""
    rows = [h for h in timeline.handovers if h.over is not None][-_NEWEST:]
    if not rows:
        return Markup("")
    scale = _build_hours_scale(rows)
    bottom = _TOP + _ROW * len(rows)
    label = "hours after the end of the link before"
    parts = [svg.draw_x_axis(scale, top=_TOP - 8, bottom=bottom, label=label)]
    parts.append(
        svg.draw_rule(
            scale(0), _TOP - 8, scale(0), bottom, cls="end", tooltip="the link before ends"
        )
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
    forecast = row.forecast
    start = [row.successor.start] if row.successor.start is not None else []
    return start + ([] if forecast is None else [forecast.p10, forecast.p90])


def _compute_hours_after(row: TimelineHandover, at: int) -> float:
    return (at - (row.ends or at)) / HOUR_S


def _draw_close_up(row: TimelineHandover, scale: HoursScale, y: float) -> list[Markup]:
    outcome, forecast = row.over, row.forecast
    parts = [
        svg.draw_text(_LEFT - 10, y + 4, f"link {row.successor.index}", cls="tick", anchor="end")
    ]
    if outcome is None:
        return parts
    if forecast is not None:
        begin, median, end = (
            scale(_compute_hours_after(row, at))
            for at in (forecast.p10, forecast.p50, forecast.p90)
        )
        parts.append(
            svg.draw_bar(begin, y - 4, end - begin, 8, cls="range", tooltip=_describe_forecast(row))
        )
        parts.append(svg.draw_diamond(median, y, cls="median", radius=4))
    at = scale(_compute_hours_after(row, outcome.successor_start))
    cls = classify_outcome(outcome.successor_start - outcome.predecessor_end)
    low, high = min(at, scale(0)), max(at, scale(0))
    if cls != EVEN:
        parts.append(
            svg.draw_bar(low, y - 1.5, high - low, 3, cls=cls, tooltip=_describe_handover(row))
        )
    parts.append(svg.draw_dot(at, y, cls=f"dot {cls}", tooltip=_describe_handover(row), radius=5))
    return parts


def classify_outcome(lateness: float) -> str:
    """Return the CSS class of a link that started `lateness` seconds after its predecessor's end.

    A negative number means that the two links overlapped.
    """
    if lateness:
        return "gap" if lateness > 0 else "lap"
    return EVEN


def _describe_forecast(row: TimelineHandover) -> str:
    forecast = row.forecast
    if forecast is None:
        return "no forecast"
    low, high = (f"{_compute_hours_after(row, at):+.1f} h" for at in (forecast.p10, forecast.p90))
    return f"forecast of link {row.successor.index}: {low} to {high} after the link before ended"


def _describe_handover(row: TimelineHandover) -> str:
    outcome = row.over
    if outcome is None:
        return f"link {row.successor.index} has not started yet"
    parts = ((outcome.interruption_h, "interruption"), (outcome.overlap_h, "overlap"))
    kinds = [f"{format_hours(hours)} of {word}" for hours, word in parts if hours]
    kind = " and ".join(kinds) or "neither interruption nor overlap"
    return f"hand-over to link {row.successor.index}: {kind}; {_describe_forecast(row)}"
