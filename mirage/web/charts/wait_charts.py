"""Draws waits over time as a band with a line in it, and one forecast as a strip."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from mirage.domain.decision import Forecast
from mirage.reports.wait_statistics import Span, WaitPoint, WaitsOverTime
from mirage.web.charts import svg
from mirage.web.charts.scales import TimeScale, WaitScale
from mirage.web.formatting import format_count, format_duration, render_instant

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 1160, 62, 24, 26, 240
_BARS = 46
"""Pixels for the numbers of jobs, below the waits."""
_GAP = 34
_SHORTEST_S, _MARGIN = 60.0, 1.4
_LEAST_TOP_S = 3600.0
_STRIP, _STRIP_LEFT = 560, 24


def draw_waits(waits: WaitsOverTime) -> Markup:
    """Draw p10 to p90 as a band, p50 as a line, and below them the number of started jobs."""
    query = waits.query
    x = TimeScale(query.since, query.until, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _HEIGHT
    y = WaitScale(_SHORTEST_S, _find_highest(p.waits.p90_s for p in waits.points), bottom, _TOP)
    parts = [
        svg.draw_y_axis(y, left=_LEFT, right=_WIDTH - _RIGHT, label="wait", max_ticks=7),
        *_draw_runs(waits.points, x, y),
        *_draw_counts(waits.points, x, bottom + _GAP),
        svg.draw_x_axis(x, top=_TOP, bottom=bottom + _GAP + _BARS, max_ticks=9),
    ]
    return svg.draw_figure(
        _WIDTH,
        bottom + _GAP + _BARS + 24,
        parts,
        name="waits",
        title="How long jobs waited, by the time of their start",
        desc=summarize_waits(waits),
    )


def summarize_waits(waits: WaitsOverTime) -> str:
    """Return the chart in words."""
    whole = waits.whole
    if whole.p50_s is None:
        too_few = f"{format_count(whole.jobs, 'job')} started: too few to show their waits."
        return too_few if whole.jobs else "No job started in this time."
    known_points = [p for p in waits.points if p.waits.p50_s is not None]
    worst_point = max(known_points, key=lambda p: p.waits.p50_s or 0.0, default=None)
    summary = (
        f"{format_count(whole.jobs, 'job')} started. "
        f"One in ten waited less than {format_duration(whole.p10_s)}, "
        f"half less than {format_duration(whole.p50_s)}, "
        f"nine in ten less than {format_duration(whole.p90_s)}."
    )
    if worst_point is None:
        return summary
    kind = "hour" if waits.query.by is Span.HOUR else "day"
    at = render_instant(worst_point.at).striptags()
    day = at if kind == "hour" else at.removesuffix(" 00:00")
    longest = format_duration(worst_point.waits.p50_s)
    return f"{summary} The {kind} with the longest median wait was {day}: {longest}."


def draw_forecast(forecast: Forecast) -> Markup:
    """Draw p10 to p90 of one wait, with p50 marked."""
    p10, p50, p90 = (
        forecast.p10_s or 0.0,
        forecast.p50_s,
        forecast.p50_s if forecast.p90_s is None else forecast.p90_s,
    )
    x = WaitScale(_SHORTEST_S, _find_highest([p90]), _STRIP_LEFT, _STRIP - _STRIP_LEFT)
    parts = [
        svg.draw_x_axis(x, top=6, bottom=40, max_ticks=9),
        svg.draw_bar(
            x(p10),
            16,
            x(p90) - x(p10),
            14,
            cls="range",
            tooltip=f"{format_duration(p10)} to {format_duration(p90)}",
        ),
        svg.draw_diamond(
            x(p50),
            23,
            cls="median",
            tooltip=f"half of such jobs start within {format_duration(p50)}",
            radius=6,
        ),
    ]
    desc = (
        f"p10 {format_duration(p10)}, p50 {format_duration(p50)}, p90 {format_duration(p90)}, "
        "on a logarithmic scale"
    )
    return svg.draw_figure(_STRIP, 62, parts, name="wait", title="The forecast wait", desc=desc)


def _find_highest(waits_s: Iterator[float | None] | Sequence[float | None]) -> float:
    longest = max((w for w in waits_s if w is not None), default=0.0)
    return max(longest * _MARGIN, _LEAST_TOP_S)


def _draw_runs(points: Sequence[WaitPoint], x: TimeScale, y: WaitScale) -> Iterator[Markup]:
    """Draw bands and lines, broken where too few jobs started."""
    for has_waits, run in groupby(points, key=lambda p: p.waits.p50_s is not None):
        if has_waits:
            yield from _draw_run(list(run), x, y)


def _draw_run(run: Sequence[WaitPoint], x: TimeScale, y: WaitScale) -> Iterator[Markup]:
    middles = [x((p.at + p.until) / 2) for p in run]

    def compute_heights(name: str) -> list[tuple[float, float]]:
        values = (getattr(p.waits, name) or 0.0 for p in run)
        return [(at, y(value)) for at, value in zip(middles, values, strict=True)]

    low, middle, high = compute_heights("p10_s"), compute_heights("p50_s"), compute_heights("p90_s")
    if len(run) == 1:
        (at, top), (_, foot) = high[0], low[0]
        yield svg.draw_bar(at - 3, top, 6, foot - top, cls="band", tooltip=_describe_point(run[0]))
    else:
        yield svg.draw_band(low, high)
        yield svg.draw_line(middle)
    radius = 3 if len(run) < 60 else 2  # noqa: PLR2004
    for point, (at, height) in zip(run, middle, strict=True):
        yield svg.draw_dot(at, height, tooltip=_describe_point(point), radius=radius)


def _draw_counts(points: Sequence[WaitPoint], x: TimeScale, top: float) -> Iterator[Markup]:
    """Draw a bar for each hour or day: the number of jobs that started."""
    max_jobs = max((p.waits.jobs for p in points), default=0)
    yield svg.draw_text(max(2.0, _LEFT - 44), top - 8, "jobs that started", cls="label")
    if not max_jobs:
        return
    yield svg.draw_text(_LEFT - 6, top + 10, f"{max_jobs:,}", cls="tick", anchor="end")
    for point in points:
        height = _BARS * point.waits.jobs / max_jobs
        left, right = x(point.at), x(point.until)
        inset = min(1.0, (right - left) / 8)
        if point.waits.jobs:
            yield svg.draw_bar(
                left + inset,
                top + _BARS - height,
                right - left - 2 * inset,
                height,
                cls="done",
                tooltip=_describe_point(point),
            )


def _describe_point(point: WaitPoint) -> str:
    at = render_instant(point.at).striptags()
    jobs = format_count(point.waits.jobs, "job")
    if point.waits.p50_s is None:
        return f"{at}: {jobs}"
    quantiles = (point.waits.p10_s, point.waits.p50_s, point.waits.p90_s)
    p10, p50, p90 = map(format_duration, quantiles)
    return f"{at}: {jobs}, p10 {p10}, p50 {p50}, p90 {p90}"
