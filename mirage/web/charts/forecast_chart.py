"""How the forecast of one hand-over went, as a fan about the end of the link before."""

from markupsafe import Markup

from mirage.services.reports.chain_timeline import Course, CoursePoint
from mirage.web.charts import svg
from mirage.web.charts.chain_charts import outcome
from mirage.web.charts.scales import Hours, Time

_WIDTH, _LEFT, _RIGHT = 1240, 64, 1220
_TOP, _BOTTOM = 32, 240
_HOUR = 3600


def draw(found: Course, now: int) -> Markup:
    """p10 to p90 of the start at each decision; and when it did start, where it has."""
    ends = found.handover.ends
    if ends is None or not found.points:
        return Markup("")
    x, y = _scales(found, ends, now)
    parts = [
        svg.x_axis(x, top=_TOP, bottom=_BOTTOM),
        svg.y_axis(y, left=_LEFT, right=_RIGHT, label="hours after the end of the link before"),
        svg.band(
            [(x(p.at), y(_late(p.p10, ends))) for p in found.points],
            [(x(p.at), y(_late(p.p90, ends))) for p in found.points],
        ),
        svg.line([(x(p.at), y(_late(p.p50, ends))) for p in found.points]),
        *(_point(p, ends, x, y) for p in found.points),
        svg.rule(_LEFT, y(0), _RIGHT, y(0), cls="end", says="the link before ends"),
        *_happened(found, ends, x, y),
    ]
    return svg.figure(
        _WIDTH,
        _BOTTOM + 24,
        parts,
        name="course",
        title=f"The forecast of link {found.handover.successor.index}, decision by decision",
        desc=_told(found, ends),
    )


def _late(at: int, ends: int) -> float:
    return (at - ends) / _HOUR


def _scales(found: Course, ends: int, now: int) -> tuple[Time, Hours]:
    start, freed = found.handover.successor.start, found.handover.successor.freed_at
    instants = [p.at for p in found.points]
    instants += [at for at in (freed, now if start is None else start) if at is not None]
    first, last = min(instants), max(instants)
    margin = max(300, (last - first) // 40)
    reach = [_late(at, ends) for p in found.points for at in (p.p10, p.p90)]
    reach += [0.0] if start is None else [0.0, _late(start, ends)]
    low, high = min(reach), max(reach)
    room = max(0.25, 0.06 * (high - low))
    return (
        Time(first - margin, last + margin, _LEFT, _RIGHT),
        Hours(low - room, high + room, _BOTTOM, _TOP),
    )


def _point(point: CoursePoint, ends: int, x: Time, y: Hours) -> Markup:
    p10, p50, p90 = (_late(at, ends) for at in (point.p10, point.p50, point.p90))
    says = f"p10 {p10:+.1f} h, p50 {p50:+.1f} h, p90 {p90:+.1f} h"
    return svg.dot(x(point.at), y(p50), radius=2.5, says=says)


def _happened(found: Course, ends: int, x: Time, y: Hours) -> list[Markup]:
    """The move, and the start."""
    freed, start = found.handover.successor.freed_at, found.handover.successor.start
    parts = []
    if freed is not None:
        parts.append(svg.rule(x(freed), _TOP, x(freed), _BOTTOM, cls="now", says="made eligible"))
        parts.append(svg.text(x(freed) + 5, _TOP + 10, "made eligible", cls="tick"))
    if start is not None:
        late = _late(start, ends)
        says = f"it started {late:+.1f} h after the end"
        parts.append(svg.dot(x(start), y(late), cls=f"dot {outcome(late)}", radius=6, says=says))
    return parts


def _told(found: Course, ends: int) -> str:
    first, last = found.points[0], found.points[-1]
    words = f"By the median {_late(first.p50, ends):+.1f} h about the end at the first decision, "
    words += f"{_late(last.p50, ends):+.1f} h at the last."
    start = found.handover.successor.start
    return words if start is None else f"{words} It started {_late(start, ends):+.1f} h after it."
