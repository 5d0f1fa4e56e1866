"""Waits as charts: over time as a band with a line in it, and one forecast as a strip."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from mirage.domain.decision import Forecast
from mirage.services.reports.wait_statistics import Span, WaitPoint, WaitsOverTime
from mirage.web.charts import svg
from mirage.web.charts.scales import Time, Waits
from mirage.web.formatting import count, span, when

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 1160, 62, 24, 26, 240
_BARS = 46
"""Pixels for the numbers of jobs, below the waits."""
_GAP = 34
_SHORTEST_S, _MARGIN = 60.0, 1.4
_LEAST_TOP_S = 3600.0
_STRIP, _STRIP_LEFT = 560, 24


def over_time(waits: WaitsOverTime) -> Markup:
    """p10 to p90 as a band, p50 as a line, and below how many jobs started."""
    asked = waits.asked
    x = Time(asked.since, asked.until, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _HEIGHT
    y = Waits(_SHORTEST_S, _highest(p.waits.p90_s for p in waits.points), bottom, _TOP)
    parts = [
        svg.y_axis(y, left=_LEFT, right=_WIDTH - _RIGHT, label="wait", most=7),
        *_runs(waits.points, x, y),
        *_numbers(waits.points, x, bottom + _GAP),
        svg.x_axis(x, top=_TOP, bottom=bottom + _GAP + _BARS, most=9),
    ]
    return svg.figure(
        _WIDTH,
        bottom + _GAP + _BARS + 24,
        parts,
        name="waits",
        title="Waits of jobs by when they started",
        desc=summary(waits),
    )


def summary(waits: WaitsOverTime) -> str:
    """The chart in words."""
    whole = waits.whole
    if whole.p50_s is None:
        few = f"{count(whole.jobs, 'job')} started: too few to tell of."
        return few if whole.jobs else "No job started in this time."
    told = [p for p in waits.points if p.waits.p50_s is not None]
    worst = max(told, key=lambda p: p.waits.p50_s or 0.0, default=None)
    words = (
        f"{count(whole.jobs, 'job')} started. One in ten waited less than {span(whole.p10_s)}, "
        f"half less than {span(whole.p50_s)}, nine in ten less than {span(whole.p90_s)}."
    )
    if worst is None:
        return words
    kind = "hour" if waits.asked.by is Span.HOUR else "day"
    at = when(worst.at).striptags()
    day = at if kind == "hour" else at.removesuffix(" 00:00")
    return f"{words} The {kind} with the longest median wait was {day}: {span(worst.waits.p50_s)}."


def one(forecast: Forecast) -> Markup:
    """p10 to p90 of one wait, p50 marked."""
    p10, p50, p90 = (
        forecast.p10_s or 0.0,
        forecast.p50_s,
        forecast.p50_s if forecast.p90_s is None else forecast.p90_s,
    )
    x = Waits(_SHORTEST_S, _highest([p90]), _STRIP_LEFT, _STRIP - _STRIP_LEFT)
    parts = [
        svg.x_axis(x, top=6, bottom=40, most=9),
        svg.bar(x(p10), 16, x(p90) - x(p10), 14, cls="range", says=f"{span(p10)} to {span(p90)}"),
        svg.diamond(x(p50), 23, cls="median", says=f"half start within {span(p50)}", radius=6),
    ]
    desc = f"p10 {span(p10)}, p50 {span(p50)}, p90 {span(p90)}, on a logarithmic scale"
    return svg.figure(_STRIP, 62, parts, name="wait", title="The forecast wait", desc=desc)


def _highest(waits_s: Iterator[float | None] | Sequence[float | None]) -> float:
    longest = max((w for w in waits_s if w is not None), default=0.0)
    return max(longest * _MARGIN, _LEAST_TOP_S)


def _runs(points: Sequence[WaitPoint], x: Time, y: Waits) -> Iterator[Markup]:
    """Bands and lines, broken where nothing is told."""
    for told, run in groupby(points, key=lambda p: p.waits.p50_s is not None):
        if told:
            yield from _run(list(run), x, y)


def _run(run: Sequence[WaitPoint], x: Time, y: Waits) -> Iterator[Markup]:
    middles = [x((p.at + p.until) / 2) for p in run]

    def heights(name: str) -> list[tuple[float, float]]:
        values = (getattr(p.waits, name) or 0.0 for p in run)
        return [(at, y(value)) for at, value in zip(middles, values, strict=True)]

    low, middle, high = heights("p10_s"), heights("p50_s"), heights("p90_s")
    if len(run) == 1:
        (at, top), (_, foot) = high[0], low[0]
        yield svg.bar(at - 3, top, 6, foot - top, cls="band", says=_says(run[0]))
    else:
        yield svg.band(low, high)
        yield svg.line(middle)
    for point, (at, height) in zip(run, middle, strict=True):
        yield svg.dot(at, height, says=_says(point), radius=3 if len(run) < 60 else 2)  # noqa: PLR2004


def _numbers(points: Sequence[WaitPoint], x: Time, top: float) -> Iterator[Markup]:
    """A bar for each hour or day: how many jobs started."""
    most = max((p.waits.jobs for p in points), default=0)
    yield svg.text(max(2.0, _LEFT - 44), top - 8, "jobs that started", cls="label")
    if not most:
        return
    yield svg.text(_LEFT - 6, top + 10, f"{most:,}", cls="tick", anchor="end")
    for point in points:
        height = _BARS * point.waits.jobs / most
        left, right = x(point.at), x(point.until)
        inset = min(1.0, (right - left) / 8)
        if point.waits.jobs:
            yield svg.bar(
                left + inset,
                top + _BARS - height,
                right - left - 2 * inset,
                height,
                cls="done",
                says=_says(point),
            )


def _says(point: WaitPoint) -> str:
    at = when(point.at).striptags()
    jobs = count(point.waits.jobs, "job")
    if point.waits.p50_s is None:
        return f"{at}: {jobs}"
    told = (point.waits.p10_s, point.waits.p50_s, point.waits.p90_s)
    return f"{at}: {jobs}, p10 {span(told[0])}, p50 {span(told[1])}, p90 {span(told[2])}"
