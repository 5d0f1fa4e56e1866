"""Draws the forecasts of one hand-over as a fan around the predecessor's end."""

from markupsafe import Markup

from mirage.domain.time_units import HOUR_S
from mirage.reports.chain_timeline import ForecastHistory, ForecastPoint
from mirage.web.charts import svg
from mirage.web.charts.chain_charts import classify_outcome
from mirage.web.charts.scales import HoursScale, TimeScale

_WIDTH, _LEFT, _RIGHT = 1240, 64, 1220
_TOP, _BOTTOM = 32, 240


def draw_forecast_course(found: ForecastHistory, now: int) -> Markup:
    """Draw p10 to p90 of the start at each decision, and the start itself once it is known."""
    ends = found.handover.ends
    if ends is None or not found.points:
        return Markup("")
    x, y = _build_scales(found, ends, now)
    parts = [
        svg.draw_x_axis(x, top=_TOP, bottom=_BOTTOM),
        svg.draw_y_axis(
            y, left=_LEFT, right=_RIGHT, label="hours after the end of the link before"
        ),
        svg.draw_band(
            [(x(p.at), y(_compute_lateness(p.p10, ends))) for p in found.points],
            [(x(p.at), y(_compute_lateness(p.p90, ends))) for p in found.points],
        ),
        svg.draw_line([(x(p.at), y(_compute_lateness(p.p50, ends))) for p in found.points]),
        *(_draw_point(p, ends, x, y) for p in found.points),
        svg.draw_rule(_LEFT, y(0), _RIGHT, y(0), cls="end", says="the link before ends"),
        *_draw_outcome(found, ends, x, y),
    ]
    return svg.draw_figure(
        _WIDTH,
        _BOTTOM + 24,
        parts,
        name="course",
        title=f"The forecast of link {found.handover.successor.index}, decision by decision",
        desc=_describe_course(found, ends),
    )


def _compute_lateness(at: int, ends: int) -> float:
    return (at - ends) / HOUR_S


def _build_scales(found: ForecastHistory, ends: int, now: int) -> tuple[TimeScale, HoursScale]:
    start, freed = found.handover.successor.start, found.handover.successor.freed_at
    instants = [p.at for p in found.points]
    instants += [at for at in (freed, now if start is None else start) if at is not None]
    first, last = min(instants), max(instants)
    margin = max(300, (last - first) // 40)
    reach = [_compute_lateness(at, ends) for p in found.points for at in (p.p10, p.p90)]
    reach += [0.0] if start is None else [0.0, _compute_lateness(start, ends)]
    low, high = min(reach), max(reach)
    room = max(0.25, 0.06 * (high - low))
    return (
        TimeScale(first - margin, last + margin, _LEFT, _RIGHT),
        HoursScale(low - room, high + room, _BOTTOM, _TOP),
    )


def _draw_point(point: ForecastPoint, ends: int, x: TimeScale, y: HoursScale) -> Markup:
    p10, p50, p90 = (_compute_lateness(at, ends) for at in (point.p10, point.p50, point.p90))
    says = f"p10 {p10:+.1f} h, p50 {p50:+.1f} h, p90 {p90:+.1f} h"
    return svg.draw_dot(x(point.at), y(p50), radius=2.5, says=says)


def _draw_outcome(found: ForecastHistory, ends: int, x: TimeScale, y: HoursScale) -> list[Markup]:
    """Draw the moment when the link became eligible, and its start."""
    freed, start = found.handover.successor.freed_at, found.handover.successor.start
    parts = []
    if freed is not None:
        parts.append(
            svg.draw_rule(x(freed), _TOP, x(freed), _BOTTOM, cls="now", says="made eligible")
        )
        parts.append(svg.draw_text(x(freed) + 5, _TOP + 10, "made eligible", cls="tick"))
    if start is not None:
        late = _compute_lateness(start, ends)
        says = f"the link started {late:+.1f} h after the link before ended"
        parts.append(
            svg.draw_dot(
                x(start), y(late), cls=f"dot {classify_outcome(late)}", radius=6, says=says
            )
        )
    return parts


def _describe_course(found: ForecastHistory, ends: int) -> str:
    first, last = found.points[0], found.points[-1]
    words = (
        f"The median forecast start lay {_compute_lateness(first.p50, ends):+.1f} h from the end "
        f"of the link before at the first decision, {_compute_lateness(last.p50, ends):+.1f} h at "
        "the last."
    )
    start = found.handover.successor.start
    return (
        words
        if start is None
        else f"{words} The link started {_compute_lateness(start, ends):+.1f} h from that end."
    )
