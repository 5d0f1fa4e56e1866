"""Charts drawn as SVG: axes and marks, as markup without styles of its own.

Colours, strokes and fonts are classes of static/mirage.css, so that a chart follows the page into
the dark. Coordinates are pixels from the top left (`scales` makes them). Every text is escaped.
"""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from mirage.web.charts.scales import Scale

Points = Sequence[tuple[float, float]]


def figure(
    width: int, height: int, parts: Iterable[Markup], *, name: str, title: str, desc: str
) -> Markup:
    """The whole chart. `name` is the page's own for it; `desc` says in words what it shows."""
    return Markup(
        "<svg class='chart' viewBox='0 0 {} {}' width='{}' height='{}' role='img'"
        " aria-labelledby='{}-t {}-d'><title id='{}-t'>{}</title><desc id='{}-d'>{}</desc>{}</svg>"
    ).format(width, height, width, height, name, name, name, title, name, desc, joined(parts))


def joined(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def group(parts: Iterable[Markup], *, cls: str = "", says: str = "") -> Markup:
    """`says` is shown where the pointer rests on it."""
    return Markup("<g class='{}'>{}{}</g>").format(cls, _says(says), joined(parts))


def x_axis(scale: Scale, *, top: float, bottom: float, label: str = "", most: int = 8) -> Markup:
    """Ticks below `bottom`, with lines up to `top`."""
    parts = []
    for value, written in scale.ticks(most):
        x = scale(value)
        parts.append(rule(x, top, x, bottom, cls="grid"))
        parts.append(text(x, bottom + 15, written, cls="tick", anchor="middle"))
    if label:
        middle = (scale.at_low + scale.at_high) / 2
        parts.append(text(middle, bottom + 32, label, cls="label", anchor="middle"))
    return group(parts, cls="axis")


def y_axis(scale: Scale, *, left: float, right: float, label: str = "", most: int = 6) -> Markup:
    """Ticks left of `left`, with lines to `right`; the label lies above the axis."""
    parts = []
    for value, written in scale.ticks(most):
        y = scale(value)
        parts.append(rule(left, y, right, y, cls="grid"))
        parts.append(text(left - 6, y + 4, written, cls="tick", anchor="end"))
    if label:
        top = min(scale.at_low, scale.at_high)
        parts.append(text(max(2.0, left - 44), top - 9, label, cls="label"))
    return group(parts, cls="axis")


def line(points: Points, *, cls: str = "line") -> Markup:
    """Through pixels; nothing where there are fewer than two."""
    if len(points) < 2:  # noqa: PLR2004
        return Markup("")
    return Markup("<polyline class='{}' points='{}'/>").format(cls, _written(points))


def band(lower: Points, upper: Points, *, cls: str = "band", says: str = "") -> Markup:
    """Between two lines of pixels."""
    if not lower:
        return Markup("")
    ring = [*lower, *reversed(upper)]
    return Markup("<polygon class='{}' points='{}'>{}</polygon>").format(
        cls, _written(ring), _says(says)
    )


def bar(
    x: float, y: float, width: float, height: float, *, cls: str = "bar", says: str = ""
) -> Markup:
    """A rectangle, at least one pixel wide so that it is seen."""
    return Markup("<rect class='{}' x='{}' y='{}' width='{}' height='{}'>{}</rect>").format(
        cls, _px(x), _px(y), _px(max(width, 1.0)), _px(max(height, 0.0)), _says(says)
    )


def rule(
    x1: float, y1: float, x2: float, y2: float, *, cls: str = "rule", says: str = ""
) -> Markup:
    return Markup("<line class='{}' x1='{}' y1='{}' x2='{}' y2='{}'>{}</line>").format(
        cls, _px(x1), _px(y1), _px(x2), _px(y2), _says(says)
    )


def dot(x: float, y: float, *, cls: str = "dot", says: str = "", radius: float = 4) -> Markup:
    return Markup("<circle class='{}' cx='{}' cy='{}' r='{}'>{}</circle>").format(
        cls, _px(x), _px(y), _px(radius), _says(says)
    )


def diamond(x: float, y: float, *, cls: str = "mark", says: str = "", radius: float = 5) -> Markup:
    corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
    return Markup("<polygon class='{}' points='{}'>{}</polygon>").format(
        cls, _written(corners), _says(says)
    )


def text(x: float, y: float, words: str, *, cls: str = "", anchor: str = "start") -> Markup:
    """`anchor`: start, middle or end of the words lies at x."""
    return Markup("<text class='{}' x='{}' y='{}' text-anchor='{}'>{}</text>").format(
        cls, _px(x), _px(y), anchor, words
    )


def _says(words: str) -> Markup:
    return Markup("<title>{}</title>").format(words) if words else Markup("")


def _written(points: Points) -> str:
    return " ".join(f"{_px(x)},{_px(y)}" for x, y in points)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
