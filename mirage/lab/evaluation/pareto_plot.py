"""Draws interruption against overlap as SVG, for `mirage evaluate --plot` and the shadow report."""

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mirage.errors import InputError
from mirage.judging.evaluation import Figures
from mirage.lab.output_check import check_writable
from mirage.policies.registry import AUTO
from mirage.web.charts import svg
from mirage.web.charts.scales import LinearScale, Tick

STYLE = """
.chart { max-width: 100%; height: auto; font-size: 12px; fill: currentColor; }
.chart .grid { stroke: #8884; }
.chart .front { fill: none; stroke: #777; stroke-dasharray: 2 4; }
.chart .leads { fill: none; stroke: #8888; }
.chart .other { fill: #777; stroke: #777; }
.chart .ours { fill: #1a7f5a; stroke: #1a7f5a; }
"""
"""CSS rules that a page with this chart must contain."""

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 190, 28, 48
_LINE = 20
"""Pixels between two lines of the legend."""
_ROOM = 1.05
_LEAST_H = 0.4

Point = tuple[float, float]
PolicyFigures = Mapping[str, Any]


class _OverlapScale(LinearScale):
    """Hours: linear to one hour, logarithmic beyond. `at-once` overlaps by a whole link, and the
    interesting part is the first hours."""

    def __call__(self, value: float) -> float:
        share = _compress(value) / (_compress(self.high) or 1.0)
        return self.at_low + share * (self.at_high - self.at_low)

    def list_ticks(self, most: int = 8) -> list[Tick]:
        if self.high <= 1:
            return super().list_ticks(most)
        ticks = (0.0, 0.5, *(f * 10.0**n for n in range(5) for f in (1, 2, 5)))
        within = [hours for hours in ticks if hours <= self.high]
        return [(hours, f"{hours:g}") for hours in within[:: 1 + len(within) // (2 * most)]]


def _compress(hours: float) -> float:
    return hours if hours <= 1 else 1 + log10(hours)


def check_plot_path(path: Path) -> None:
    """Raise InputError if no plot can be written there. Call it before the long work."""
    if path.suffix.lower() != ".svg":
        raise InputError(f"{path}: a plot is a .svg file")
    check_writable(path)


def write_plot(path: Path, figures: Figures, constant_leads: Sequence[Point]) -> None:
    """Write the policies (all hand-overs) over the curve of constant leads as a picture of its
    own."""
    rows = {name: by_class["all"] for name, by_class in figures.items()}
    chart = render_plot(rows, name="plot", constant_leads=constant_leads)
    height = _compute_height(len(rows))
    picture = Markup(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}'>"
        "<style>text {{ font-family: sans-serif; }} {2}</style>"
        "<rect width='100%' height='100%' fill='white'/>{3}</svg>\n"
    ).format(_WIDTH, height, STYLE, chart)
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def render_plot(
    rows: Mapping[str, PolicyFigures],
    *,
    name: str,
    labels: Mapping[str, str] | None = None,
    constant_leads: Sequence[Point] = (),
) -> Markup:
    """Draw each policy with its intervals, and a dotted line through the policies that none
    beats in both.

    `name` is unique on the page. `labels` has the names that people read.
    """
    return svg.draw_figure(
        _WIDTH,
        _compute_height(len(rows)),
        _draw_parts(rows, labels or {}, constant_leads),
        name=name,
        title="Interruption against overlap",
        desc="Mean hours per hand-over of each policy, which the table gives as numbers.",
    )


def _compute_height(policies: int) -> int:
    """The legend has a line for each policy, and one for the constant leads."""
    return max(_HEIGHT, _TOP + _LINE * (policies + 1))


def _draw_parts(
    rows: Mapping[str, PolicyFigures], labels: Mapping[str, str], constant_leads: Sequence[Point]
) -> Iterator[Markup]:
    most_x = max(_compute_maximum(rows, "overlap_h"), *(a for a, _ in constant_leads), 0.0)
    most_y = max(_compute_maximum(rows, "interruption_h"), *(b for _, b in constant_leads), 0.0)
    x = _OverlapScale(0, most_x, _LEFT, _WIDTH - _RIGHT)
    y = LinearScale(0, most_y, _HEIGHT - _BOTTOM, _TOP)
    yield svg.draw_x_axis(
        x, top=_TOP, bottom=_HEIGHT - _BOTTOM, label="mean overlap, h", max_ticks=5
    )
    yield svg.draw_y_axis(
        y, left=_LEFT, right=_WIDTH - _RIGHT, label="mean interruption, h", max_ticks=5
    )
    yield svg.draw_line([(x(a), y(b)) for a, b in constant_leads], cls="leads")
    # The oracle beats every policy, but its choices are known only afterwards.
    points = [
        (figures["overlap_h"], figures["interruption_h"])
        for name, figures in rows.items()
        if name != "oracle"
    ]
    yield svg.draw_line([(x(a), y(b)) for a, b in _compute_pareto_front(points)], cls="front")
    left, top = _WIDTH - _RIGHT + 16, _TOP + 12
    for number, (policy, figures) in enumerate(rows.items(), start=1):
        yield from _draw_point(x, y, policy, figures, str(number))
        yield svg.draw_text(left, top, f"{number} {labels.get(policy, policy)}")
        top += _LINE
    if constant_leads:
        yield svg.draw_text(left, top, "grey: constant leads")


def _draw_point(
    x: LinearScale, y: LinearScale, policy: str, figures: PolicyFigures, number: str
) -> Iterator[Markup]:
    """Draw a numbered mark with its intervals."""
    at_x, at_y = x(figures["overlap_h"]), y(figures["interruption_h"])
    low_x, high_x = map(x, _get_interval(figures, "overlap_h"))
    low_y, high_y = map(y, _get_interval(figures, "interruption_h"))
    marks = [
        svg.draw_rule(low_x, at_y, high_x, at_y, cls=""),
        svg.draw_rule(at_x, low_y, at_x, high_y, cls=""),
        svg.draw_dot(at_x, at_y, cls=""),
    ]
    yield svg.group_parts(marks, cls="ours" if policy == AUTO else "other")
    yield svg.draw_text(at_x + 6, at_y - 6, number)


def _compute_pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other point beats in both overlap and interruption, sorted by
    overlap."""
    front: list[Point] = []
    for point in sorted(points):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _compute_maximum(rows: Mapping[str, PolicyFigures], figure: str) -> float:
    return max(_LEAST_H, *(_ROOM * _get_interval(figures, figure)[1] for figures in rows.values()))


def _get_interval(figures: PolicyFigures, figure: str) -> tuple[float, float]:
    low, high = figures[f"{figure}_ci"] or (figures[figure], figures[figure])
    return min(low, figures[figure]), max(high, figures[figure])
