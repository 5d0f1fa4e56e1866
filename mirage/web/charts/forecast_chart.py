"""Draws the forecasts of one hand-over as a fan around the predecessor's end."""

from markupsafe import Markup

from mirage.domain.time_units import HOUR_S
from mirage.reports.chain_timeline import ForecastHistory, ForecastPoint
from mirage.web.charts import svg
from mirage.web.charts.chain_charts import classify_outcome
from mirage.web.charts.scales import HoursScale, TimeScale

_WIDTH, _LEFT, _RIGHT = 1240, 64, 1220
_TOP, _BOTTOM = 32, 240


def draw_forecast_course(course: ForecastHistory, now: int) -> Markup:
    """Draw p10 to p90 of the start at each decision, and the start itself once it is known."""
    predecessor_end = course.handover.ends
    if predecessor_end is None or not course.points:
        return Markup("")
    x, y = _build_scales(course, predecessor_end, now)
    parts = [
        svg.draw_x_axis(x, top=_TOP, bottom=_BOTTOM),
        svg.draw_y_axis(
            y, left=_LEFT, right=_RIGHT, label="hours after the end of the link before"
        ),
        svg.draw_band(
            [(x(p.at), y(_compute_lateness(p.p10, predecessor_end))) for p in course.points],
            [(x(p.at), y(_compute_lateness(p.p90, predecessor_end))) for p in course.points],
        ),
        svg.draw_line(
            [(x(p.at), y(_compute_lateness(p.p50, predecessor_end))) for p in course.points]
        ),
        *(_draw_point(p, predecessor_end, x, y) for p in course.points),
        svg.draw_rule(_LEFT, y(0), _RIGHT, y(0), cls="end", tooltip="the link before ends"),
        *_draw_outcome(course, predecessor_end, x, y),
    ]
    return svg.draw_figure(
        _WIDTH,
        _BOTTOM + 24,
        parts,
        name="course",
        title=f"The forecast of link {course.handover.successor.index}, decision by decision",
        desc=_describe_course(course, predecessor_end),
    )


def _compute_lateness(at: int, predecessor_end: int) -> float:
    return (at - predecessor_end) / HOUR_S


def _build_scales(
    course: ForecastHistory, predecessor_end: int, now: int
) -> tuple[TimeScale, HoursScale]:
    start, freed_at = course.handover.successor.start, course.handover.successor.freed_at
    instants = [p.at for p in course.points]
    instants += [at for at in (freed_at, now if start is None else start) if at is not None]
    first, last = min(instants), max(instants)
    margin = max(300, (last - first) // 40)
    reach = [_compute_lateness(at, predecessor_end) for p in course.points for at in (p.p10, p.p90)]
    reach += [0.0] if start is None else [0.0, _compute_lateness(start, predecessor_end)]
    low, high = min(reach), max(reach)
    room = max(0.25, 0.06 * (high - low))
    return (
        TimeScale(first - margin, last + margin, _LEFT, _RIGHT),
        HoursScale(low - room, high + room, _BOTTOM, _TOP),
    )


def _draw_point(point: ForecastPoint, predecessor_end: int, x: TimeScale, y: HoursScale) -> Markup:
    p10, p50, p90 = (
        _compute_lateness(at, predecessor_end) for at in (point.p10, point.p50, point.p90)
    )
    tooltip = f"p10 {p10:+.1f} h, p50 {p50:+.1f} h, p90 {p90:+.1f} h"
    return svg.draw_dot(x(point.at), y(p50), radius=2.5, tooltip=tooltip)


def _draw_outcome(
    course: ForecastHistory, predecessor_end: int, x: TimeScale, y: HoursScale
) -> list[Markup]:
    """Draw the moment when the link became eligible, and its start."""
    freed_at, start = course.handover.successor.freed_at, course.handover.successor.start
    parts = []
    if freed_at is not None:
        parts.append(
            svg.draw_rule(
                x(freed_at), _TOP, x(freed_at), _BOTTOM, cls="now", tooltip="made eligible"
            )
        )
        parts.append(svg.draw_text(x(freed_at) + 5, _TOP + 10, "made eligible", cls="tick"))
    if start is not None:
        lateness_h = _compute_lateness(start, predecessor_end)
        tooltip = f"the link started {lateness_h:+.1f} h after the link before ended"
        parts.append(
            svg.draw_dot(
                x(start),
                y(lateness_h),
                cls=f"dot {classify_outcome(lateness_h)}",
                radius=6,
                tooltip=tooltip,
            )
        )
    return parts


def _describe_course(course: ForecastHistory, predecessor_end: int) -> str:
    first_h = _compute_lateness(course.points[0].p50, predecessor_end)
    last_h = _compute_lateness(course.points[-1].p50, predecessor_end)
    words = (
        f"The median forecast start lay {first_h:+.1f} h from the end of the link before at the "
        f"first decision, {last_h:+.1f} h at the last."
    )
    start = course.handover.successor.start
    if start is None:
        return words
    start_h = _compute_lateness(start, predecessor_end)
    return f"{words} The link started {start_h:+.1f} h from that end."
