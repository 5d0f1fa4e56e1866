"""Draws interruption against overlap for the report's page, in the style of the pages' charts."""

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from mirage.policy.registry import AUTO
from mirage.services.reports.recommendation import NAMES, list_plotted
from mirage.studies.evaluation.pareto_plot import compute_pareto_front
from mirage.web.charts import svg
from mirage.web.charts.scales import LinearScale

STYLE = """
.chart { max-width: 100%; height: auto; font-size: 12px; fill: currentColor; }
.chart .grid { stroke: #8884; }
.chart .front { fill: none; stroke: #777; stroke-dasharray: 2 4; }
.chart .other { fill: #777; stroke: #777; }
.chart .ours { fill: #1a7f5a; stroke: #1a7f5a; }
"""
"""CSS rules that the page must contain for this chart."""

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 190, 28, 48
_ROOM = 1.05
_LEAST_H = 0.4

PolicyFigures = dict[str, Any]


def render_plot(group: PolicyFigures, name: str) -> Markup:
    """Draw each policy with its intervals, and a dotted line through the policies that none
    beats in both."""
    rows = {policy: group["policies"][policy]["all"] for policy in list_plotted(group["policies"])}
    return svg.draw_figure(
        _WIDTH,
        _HEIGHT,
        _draw_parts(rows),
        name=name,
        title="Interruption against overlap",
        desc="Mean hours per hand-over of each policy. The table below has the numbers.",
    )


def _draw_parts(rows: dict[str, PolicyFigures]) -> Iterator[Markup]:
    x = LinearScale(0, _compute_maximum(rows, "overlap_h"), _LEFT, _WIDTH - _RIGHT)
    y = LinearScale(0, _compute_maximum(rows, "interruption_h"), _HEIGHT - _BOTTOM, _TOP)
    yield svg.draw_x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM, label="mean overlap, h", most=5)
    yield svg.draw_y_axis(
        y, left=_LEFT, right=_WIDTH - _RIGHT, label="mean interruption, h", most=5
    )
    points = [(t["overlap_h"], t["interruption_h"]) for n, t in rows.items() if n != "oracle"]
    yield svg.draw_line([(x(a), y(b)) for a, b in compute_pareto_front(points)], cls="front")
    for place, (policy, told) in enumerate(rows.items(), start=1):
        yield from _draw_point(x, y, policy, told, str(place))
        at = _TOP - 8 + 20 * place
        yield svg.draw_text(_WIDTH - _RIGHT + 16, at, f"{place} {NAMES.get(policy, policy)}")


def _draw_point(
    x: LinearScale, y: LinearScale, policy: str, told: PolicyFigures, number: str
) -> Iterator[Markup]:
    """Draw a numbered mark with its intervals."""
    at_x, at_y = x(told["overlap_h"]), y(told["interruption_h"])
    low_x, high_x = map(x, _get_interval(told, "overlap_h"))
    low_y, high_y = map(y, _get_interval(told, "interruption_h"))
    marks = [
        svg.draw_rule(low_x, at_y, high_x, at_y, cls=""),
        svg.draw_rule(at_x, low_y, at_x, high_y, cls=""),
        svg.draw_dot(at_x, at_y, cls=""),
    ]
    yield svg.group_parts(marks, cls="ours" if policy == AUTO else "other")
    yield svg.draw_text(at_x + 6, at_y - 6, number)


def _compute_maximum(rows: dict[str, PolicyFigures], figure: str) -> float:
    return max(_LEAST_H, *(_ROOM * _get_interval(told, figure)[1] for told in rows.values()))


def _get_interval(told: PolicyFigures, figure: str) -> tuple[float, float]:
    low, high = told[f"{figure}_ci"] or (told[figure], told[figure])
    return min(low, told[figure]), max(high, told[figure])
