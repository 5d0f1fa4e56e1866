"""Draws the charts of the page Accuracy: calibration, errors over time, policies compared."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mirage.policies.registry import is_model
from mirage.reports.forecast_accuracy import AccuracyPoint, PartitionAccuracy
from mirage.reports.recommendation import NAMES, OURS, list_plotted
from mirage.web.charts import svg
from mirage.web.charts.scales import HoursScale, LinearScale, TimeScale, WaitScale
from mirage.web.formatting import format_duration

_WIDTH, _HEIGHT = 640, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 18, 30, 44
_LINES = ("c1", "c2", "c4", "c5", "c6")
"""Classes of partitions; Slurm is c3."""
MOST_LINES = len(_LINES)
_LEAST_S = 60.0
_HUNDRED = 100.0


def draw_calibration(place: PartitionAccuracy) -> Markup:
    """Draw the share of waits below each quantile against its level.

    Right forecasts lie on the diagonal.
    """
    side = _HEIGHT - _BOTTOM
    x = LinearScale(0, _HUNDRED, _LEFT, _LEFT + side - _TOP)
    y = LinearScale(0, _HUNDRED, side, _TOP)
    points = [(x(_HUNDRED * level), y(_HUNDRED * share)) for level, share in place.calibration]
    parts = [
        svg.draw_x_axis(
            x, top=_TOP, bottom=side, label="waits that should be below, %", max_ticks=5
        ),
        svg.draw_y_axis(
            y, left=_LEFT, right=x.at_high, label="waits that were below, %", max_ticks=5
        ),
        svg.draw_line([(x(0), y(0)), (x(_HUNDRED), y(_HUNDRED))], cls="line c6 dashed"),
        svg.draw_line(points, cls="line"),
    ]
    parts += [
        svg.draw_dot(*at, tooltip=f"p{_HUNDRED * level:.0f}: {share:.0%} of waits were below it")
        for at, (level, share) in zip(points, place.calibration, strict=True)
    ]
    summary = ", ".join(
        f"p{_HUNDRED * level:.0f} {share:.0%}" for level, share in place.calibration
    )
    return svg.draw_figure(
        round(x.at_high) + _RIGHT,
        _HEIGHT,
        parts,
        name="calibration",
        title="Are the forecast ranges right?",
        desc=f"Share of waits below each quantile: {summary}. Right forecasts lie on the diagonal.",
    )


def draw_errors(places: Sequence[PartitionAccuracy]) -> Markup:
    """Draw the median errors over time: a line for each partition, and one for Slurm's plans."""
    everywhere, *others = places
    lines = others[:MOST_LINES] or [everywhere]
    points = [p for place in (everywhere, *lines) for p in place.series if p.count]
    if not points:
        return Markup("")
    x = TimeScale(
        min(p.since for p in points), max(p.since for p in points), _LEFT, _WIDTH - _RIGHT
    )
    values = [v for p in points for v in (p.median_s, p.slurm_median_s) if v is not None]
    y = WaitScale(_LEAST_S, max([*values, 10 * _LEAST_S]) * 1.3, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        svg.draw_x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM, max_ticks=6),
        svg.draw_y_axis(y, left=_LEFT, right=_WIDTH - _RIGHT, label="median error", max_ticks=6),
        *_draw_error_line(everywhere, x, y, "c3", slurm=True),
    ]
    for cls, place in zip(_LINES, lines, strict=False):
        parts += _draw_error_line(place, x, y, cls)
    desc = " ".join(_describe_place(place) for place in lines)
    return svg.draw_figure(
        _WIDTH, _HEIGHT, parts, name="errors", title="Error over time", desc=desc
    )


def get_line_class(place: int) -> str:
    """Return the CSS class of the line of the partition at `place`."""
    return _LINES[place]


def _draw_error_line(
    place: PartitionAccuracy, x: TimeScale, y: WaitScale, cls: str, *, slurm: bool = False
) -> Iterator[Markup]:
    errors = [(p, p.slurm_median_s if slurm else p.median_s) for p in place.series]
    values = [(p, value) for p, value in errors if value is not None]
    yield svg.draw_line(
        [(x(p.since), y(value)) for p, value in values],
        cls=f"line {cls}" + (" dashed" if slurm else ""),
    )
    name = "Slurm's own plan" if slurm else place.partition or "all"
    for p, value in values:
        tooltip = f"{name}: {format_duration(value)} ({p.count} waits)"
        yield svg.draw_dot(x(p.since), y(value), cls=f"dot {cls}", tooltip=tooltip, radius=3)


def _describe_place(place: PartitionAccuracy) -> str:
    name = place.partition or "All partitions"
    first, last = _get_first_and_last(place.series)
    return (
        f"{name}: median error from {format_duration(first)} to {format_duration(last)}."
        if first is not None
        else f"{name}: no error is known."
    )


def _get_first_and_last(series: Sequence[AccuracyPoint]) -> tuple[float | None, float | None]:
    medians = [p.median_s for p in series if p.median_s is not None]
    return (medians[0], medians[-1]) if medians else (None, None)


def draw_policies(group: Mapping[str, Any]) -> Markup:
    """Draw each policy's mean interruption against its mean overlap, from a shadow report."""
    rows = [(name, group["policies"][name]["all"]) for name in list_plotted(group["policies"])]
    return draw_tradeoff(rows, name="policies")


def draw_tradeoff(rows: Sequence[tuple[str, Mapping[str, Any]]], *, name: str) -> Markup:
    """Draw the mean interruption of policies against their mean overlap.

    `rows` has each policy's name and figures: `interruption_h`, `overlap_h`, and their intervals
    NAME_ci, which may be missing. `name` is unique on the page.
    """
    most_x = max([_get_upper_end(figures, "overlap_h") for _, figures in rows] + [0.5])
    most_y = max([_get_upper_end(figures, "interruption_h") for _, figures in rows] + [0.5])
    x = HoursScale(0, most_x * 1.05, _LEFT, 410)
    y = HoursScale(0, most_y * 1.05, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        svg.draw_x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM, label="mean overlap", max_ticks=5),
        svg.draw_y_axis(y, left=_LEFT, right=x.at_high, label="mean interruption", max_ticks=5),
    ]
    for number, (policy, figures) in enumerate(rows, start=1):
        parts += _draw_policy(number, policy, figures, x, y)
    summaries = (
        f"{get_policy_name(n)} {t['interruption_h']:.1f} h and {t['overlap_h']:.1f} h"
        for n, t in rows
    )
    return svg.draw_figure(
        _WIDTH,
        _HEIGHT,
        parts,
        name=name,
        title="Interruption against overlap",
        desc=f"Mean interruption and mean overlap: {', '.join(summaries)}.",
    )


def get_policy_name(policy: str) -> str:
    """Return the policy's name as people read it."""
    return NAMES.get(policy, policy)


def _draw_policy(
    number: int, name: str, figures: Mapping[str, Any], x: HoursScale, y: HoursScale
) -> Iterator[Markup]:
    """Draw a numbered mark with its intervals, and its line in the list beside the chart."""
    cls = "c2" if name == OURS or is_model(name) else "c6"
    at_x, at_y = x(figures["overlap_h"]), y(figures["interruption_h"])
    for figure, scale in (("overlap_h", x), ("interruption_h", y)):
        ends = figures.get(f"{figure}_ci")
        if ends is None:
            continue
        low, high = (scale(end) for end in ends)
        along = (low, at_y, high, at_y) if scale is x else (at_x, low, at_x, high)
        yield svg.draw_rule(*along, cls="rule")
    yield svg.draw_dot(at_x, at_y, cls=f"dot {cls}", tooltip=get_policy_name(name), radius=5)
    yield svg.draw_text(at_x + 8, at_y - 7, str(number), cls="label")
    yield svg.draw_dot(x.at_high + 28, _TOP + 22 * number - 4, cls=f"dot {cls}", radius=5)
    yield svg.draw_text(x.at_high + 40, _TOP + 22 * number, f"{number}  {get_policy_name(name)}")


def _get_upper_end(figures: Mapping[str, Any], figure: str) -> float:
    ends = figures.get(f"{figure}_ci")
    return max(float(figures[figure]), float(ends[1]) if ends else 0.0)
