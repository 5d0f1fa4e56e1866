"""Draws the parts of charts as SVG: axes and marks, as markup without styles of its own.

Colours, strokes and fonts are CSS classes of static/mirage.css, so a chart follows the page's
light or dark scheme. Coordinates are pixels from the top left (`scales` makes them). Every text is
escaped.
"""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from mirage.web.charts.scales import Scale

Points = Sequence[tuple[float, float]]


def draw_figure(
    width: int, height: int, parts: Iterable[Markup], *, name: str, title: str, desc: str
) -> Markup:
    """Return the whole chart.

    `name` begins its ids and is unique on the page; `desc` says in words what the chart shows.
    """
    return Markup(
        "<svg class='chart' viewBox='0 0 {} {}' width='{}' height='{}' role='img'"
        " aria-labelledby='{}-t {}-d'><title id='{}-t'>{}</title><desc id='{}-d'>{}</desc>{}</svg>"
    ).format(width, height, width, height, name, name, name, title, name, desc, join_parts(parts))


def join_parts(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def group_parts(parts: Iterable[Markup], *, cls: str) -> Markup:
    return Markup("<g class='{}'>{}</g>").format(cls, join_parts(parts))


def draw_x_axis(
    scale: Scale, *, top: float, bottom: float, label: str = "", max_ticks: int = 8
) -> Markup:
    """Draw ticks below `bottom`, with lines up to `top`, and the label below the ticks."""
    parts = []
    for value, text in scale.list_ticks(max_ticks):
        x = scale(value)
        parts.append(draw_rule(x, top, x, bottom, cls="grid"))
        parts.append(draw_text(x, bottom + 15, text, cls="tick", anchor="middle"))
    if label:
        middle = (scale.at_low + scale.at_high) / 2
        parts.append(draw_text(middle, bottom + 32, label, cls="label", anchor="middle"))
    return group_parts(parts, cls="axis")


def draw_y_axis(
    scale: Scale, *, left: float, right: float, label: str = "", max_ticks: int = 6
) -> Markup:
    """Draw ticks left of `left`, with lines to `right`, and the label above the axis."""
    parts = []
    for value, text in scale.list_ticks(max_ticks):
        y = scale(value)
        parts.append(draw_rule(left, y, right, y, cls="grid"))
        parts.append(draw_text(left - 6, y + 4, text, cls="tick", anchor="end"))
    if label:
        top = min(scale.at_low, scale.at_high)
        parts.append(draw_text(max(2.0, left - 44), top - 9, label, cls="label"))
    return group_parts(parts, cls="axis")


def draw_line(points: Points, *, cls: str = "line") -> Markup:
    """Draw a line through the points; return empty markup for fewer than two points."""
    if len(points) < 2:  # noqa: PLR2004
        return Markup("")
    return Markup("<polyline class='{}' points='{}'/>").format(cls, _format_points(points))


def draw_band(lower: Points, upper: Points) -> Markup:
    """Fill the area between two lines of points; return empty markup for no points."""
    if not lower:
        return Markup("")
    ring = [*lower, *reversed(upper)]
    return Markup("<polygon class='band' points='{}'></polygon>").format(_format_points(ring))


def draw_bar(
    x: float, y: float, width: float, height: float, *, cls: str = "bar", tooltip: str = ""
) -> Markup:
    """Draw a rectangle, at least one pixel wide so that it can be seen."""
    return Markup("<rect class='{}' x='{}' y='{}' width='{}' height='{}'>{}</rect>").format(
        cls,
        _format_pixel(x),
        _format_pixel(y),
        _format_pixel(max(width, 1.0)),
        _format_pixel(max(height, 0.0)),
        _render_title(tooltip),
    )


def draw_rule(
    x1: float, y1: float, x2: float, y2: float, *, cls: str = "rule", tooltip: str = ""
) -> Markup:
    return Markup("<line class='{}' x1='{}' y1='{}' x2='{}' y2='{}'>{}</line>").format(
        cls,
        _format_pixel(x1),
        _format_pixel(y1),
        _format_pixel(x2),
        _format_pixel(y2),
        _render_title(tooltip),
    )


def draw_dot(
    x: float, y: float, *, cls: str = "dot", tooltip: str = "", radius: float = 4
) -> Markup:
    return Markup("<circle class='{}' cx='{}' cy='{}' r='{}'>{}</circle>").format(
        cls, _format_pixel(x), _format_pixel(y), _format_pixel(radius), _render_title(tooltip)
    )


def draw_diamond(
    x: float, y: float, *, cls: str = "mark", tooltip: str = "", radius: float = 5
) -> Markup:
    corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
    return Markup("<polygon class='{}' points='{}'>{}</polygon>").format(
        cls, _format_points(corners), _render_title(tooltip)
    )


def draw_text(x: float, y: float, text: str, *, cls: str = "", anchor: str = "start") -> Markup:
    """Draw text; its start, middle or end (`anchor`) lies at x."""
    return Markup("<text class='{}' x='{}' y='{}' text-anchor='{}'>{}</text>").format(
        cls, _format_pixel(x), _format_pixel(y), anchor, text
    )


def _render_title(tooltip: str) -> Markup:
    return Markup("<title>{}</title>").format(tooltip) if tooltip else Markup("")


def _format_points(points: Points) -> str:
    return " ".join(f"{_format_pixel(x)},{_format_pixel(y)}" for x, y in points)


def _format_pixel(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
