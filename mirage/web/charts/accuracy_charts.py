"""The charts of the page Accuracy: calibration, errors over time, policies side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mirage.services.reports.forecast_accuracy import AccuracyPoint, PartitionAccuracy
from mirage.services.reports.recommendation import NAMES, ORDER, OURS
from mirage.web.charts import svg
from mirage.web.charts.scales import Hours, Linear, Time, Waits
from mirage.web.formatting import span

_WIDTH, _HEIGHT = 640, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 18, 30, 44
_LINES = ("c1", "c2", "c4", "c5", "c6")
"""Classes of partitions; Slurm is c3."""
MOST_LINES = len(_LINES)
_LEAST_S = 60.0
_HUNDRED = 100.0


def calibration(place: PartitionAccuracy) -> Markup:
    """Share of waits below each quantile against its level: on the diagonal it is right."""
    side = _HEIGHT - _BOTTOM
    x = Linear(0, _HUNDRED, _LEFT, _LEFT + side - _TOP)
    y = Linear(0, _HUNDRED, side, _TOP)
    points = [(x(_HUNDRED * level), y(_HUNDRED * share)) for level, share in place.calibration]
    parts = [
        svg.x_axis(x, top=_TOP, bottom=side, label="of waits should be below, %", most=5),
        svg.y_axis(y, left=_LEFT, right=x.at_high, label="are below, %", most=5),
        svg.line([(x(0), y(0)), (x(_HUNDRED), y(_HUNDRED))], cls="line c6 dashed"),
        svg.line(points, cls="line"),
    ]
    parts += [
        svg.dot(*at, says=f"p{_HUNDRED * level:.0f}: {share:.0%} of waits were below it")
        for at, (level, share) in zip(points, place.calibration, strict=True)
    ]
    parts += _beside_the_diagonal(x.at_high + 28)
    told = ", ".join(f"p{_HUNDRED * level:.0f} {share:.0%}" for level, share in place.calibration)
    return svg.figure(
        _WIDTH,
        _HEIGHT,
        parts,
        name="calibration",
        title="Are the forecast ranges right?",
        desc=f"Share of waits below each quantile: {told}. Right forecasts lie on the diagonal.",
    )


def _beside_the_diagonal(left: float) -> Iterator[Markup]:
    words = (
        "On the dashed line forecasts are right.",
        "Above it waits are shorter than foretold,",
        "below it longer. A line flatter than it:",
        "ranges are too narrow.",
    )
    for place, line in enumerate(words):
        yield svg.text(left, _TOP + 40 + 19 * place, line, cls="label")


def errors(places: Sequence[PartitionAccuracy]) -> Markup:
    """Median errors over time: a line for each partition, and Slurm's own of all together."""
    everywhere, *others = places
    drawn = others[:MOST_LINES] or [everywhere]
    known = [p for place in (everywhere, *drawn) for p in place.series if p.count]
    if not known:
        return Markup("")
    x = Time(min(p.since for p in known), max(p.since for p in known), _LEFT, _WIDTH - _RIGHT)
    values = [v for p in known for v in (p.median_s, p.slurm_median_s) if v is not None]
    y = Waits(_LEAST_S, max([*values, 10 * _LEAST_S]) * 1.3, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        svg.x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM, most=6),
        svg.y_axis(y, left=_LEFT, right=_WIDTH - _RIGHT, label="median error", most=6),
        *_course(everywhere, x, y, "c3", slurm=True),
    ]
    for cls, place in zip(_LINES, drawn, strict=False):
        parts += _course(place, x, y, cls)
    desc = " ".join(_told(place) for place in drawn)
    return svg.figure(
        _WIDTH, _HEIGHT, parts, name="errors", title="How far off, over time", desc=desc
    )


def line_class(place: int) -> str:
    """Of the place-th partition's line."""
    return _LINES[place]


def _course(
    place: PartitionAccuracy, x: Time, y: Waits, cls: str, *, slurm: bool = False
) -> Iterator[Markup]:
    told = [(p, p.slurm_median_s if slurm else p.median_s) for p in place.series]
    values = [(p, value) for p, value in told if value is not None]
    yield svg.line(
        [(x(p.since), y(value)) for p, value in values],
        cls=f"line {cls}" + (" dashed" if slurm else ""),
    )
    name = "Slurm's own" if slurm else place.partition or "all"
    for p, value in values:
        says = f"{name}: {span(value)} ({p.count} waits)"
        yield svg.dot(x(p.since), y(value), cls=f"dot {cls}", says=says, radius=3)


def _told(place: PartitionAccuracy) -> str:
    name = place.partition or "All partitions"
    first, last = _ends(place.series)
    return f"{name}: from {span(first)} to {span(last)}." if first is not None else f"{name}: none."


def _ends(series: Sequence[AccuracyPoint]) -> tuple[float | None, float | None]:
    known = [p.median_s for p in series if p.median_s is not None]
    return (known[0], known[-1]) if known else (None, None)


def policies(group: Mapping[str, Any]) -> Markup:
    """Mean interruption against mean overlap of each policy of a shadow report's group."""
    rows = [(name, group["policies"][name]["all"]) for name in ORDER]
    most_x = max([_high(told, "overlap_h") for _, told in rows] + [0.5])
    most_y = max([_high(told, "interruption_h") for _, told in rows] + [0.5])
    x = Hours(0, most_x * 1.05, _LEFT, 410)
    y = Hours(0, most_y * 1.05, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        svg.x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM, label="mean overlap", most=5),
        svg.y_axis(y, left=_LEFT, right=x.at_high, label="mean interruption", most=5),
    ]
    for number, (name, told) in enumerate(rows, start=1):
        parts += _policy(number, name, told, x, y)
    words = (f"{shown(n)} {t['interruption_h']:.1f} h and {t['overlap_h']:.1f} h" for n, t in rows)
    return svg.figure(
        _WIDTH,
        _HEIGHT,
        parts,
        name="policies",
        title="Interruption against overlap",
        desc=f"Mean interruption and mean overlap: {', '.join(words)}.",
    )


def shown(policy: str) -> str:
    """Its name as people read it."""
    return NAMES.get(policy, policy)


def _policy(
    number: int, name: str, told: Mapping[str, Any], x: Hours, y: Hours
) -> Iterator[Markup]:
    """A numbered mark with its intervals, and its line beside the chart."""
    cls = "c2" if name == OURS else "c6"
    at_x, at_y = x(told["overlap_h"]), y(told["interruption_h"])
    for figure, scale in (("overlap_h", x), ("interruption_h", y)):
        ends = told[f"{figure}_ci"]
        if ends is None:
            continue
        low, high = (scale(end) for end in ends)
        along = (low, at_y, high, at_y) if scale is x else (at_x, low, at_x, high)
        yield svg.rule(*along, cls="rule")
    yield svg.dot(at_x, at_y, cls=f"dot {cls}", says=shown(name), radius=5)
    yield svg.text(at_x + 8, at_y - 7, str(number), cls="label")
    yield svg.dot(x.at_high + 28, _TOP + 22 * number - 4, cls=f"dot {cls}", radius=5)
    yield svg.text(x.at_high + 40, _TOP + 22 * number, f"{number}  {shown(name)}")


def _high(told: Mapping[str, Any], figure: str) -> float:
    ends = told[f"{figure}_ci"]
    return max(float(told[figure]), float(ends[1]) if ends else 0.0)
