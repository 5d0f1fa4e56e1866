"""Interruption against overlap as inline SVG: a page needs no package to draw it."""

from collections.abc import Iterator
from html import escape
from typing import Any

from mirage.cli.pareto import front
from mirage.policy.registry import AUTO
from mirage.services.report import NAMES, ORDER

_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 190, 16, 48
_TICKS = 4
_OURS, _OTHERS = "#1a7f5a", "#777"


def plot(group: dict[str, Any]) -> str:
    """Each policy with its intervals; the dotted line through those that none beats in both."""
    rows = {name: group["policies"][name]["all"] for name in ORDER}
    return "".join(_lines(_Scale(rows), rows))


class _Scale:
    """Hours to pixels."""

    def __init__(self, rows: dict[str, dict[str, Any]]) -> None:
        self.most_x = _round_up(max(_reach(told, "overlap_h")[1] for told in rows.values()))
        self.most_y = _round_up(max(_reach(told, "interruption_h")[1] for told in rows.values()))

    def x(self, hours: float) -> float:
        return _LEFT + hours / self.most_x * (_WIDTH - _LEFT - _RIGHT)

    def y(self, hours: float) -> float:
        return _HEIGHT - _BOTTOM - hours / self.most_y * (_HEIGHT - _TOP - _BOTTOM)


def _lines(scale: _Scale, rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}' role='img' "
        "font-size='12' fill='currentColor'>"
        "<title>Mean interruption against mean overlap of each policy, in hours</title>"
    )
    yield from _axes(scale)
    points = [(t["overlap_h"], t["interruption_h"]) for n, t in rows.items() if n != "oracle"]
    line = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in front(points))
    yield f"<polyline points='{line}' fill='none' stroke='{_OTHERS}' stroke-dasharray='2 4'/>"
    for place, (name, told) in enumerate(rows.items()):
        yield from _point(scale, place, name, told)
    yield "</svg>\n"


def _axes(scale: _Scale) -> Iterator[str]:
    floor, right = scale.y(0), scale.x(scale.most_x)
    yield (f"<path d='M{_LEFT} {_TOP}V{floor:.1f}H{right:.1f}' fill='none' stroke='currentColor'/>")
    for tick in range(_TICKS + 1):
        x, y = scale.most_x * tick / _TICKS, scale.most_y * tick / _TICKS
        yield (
            f"<text x='{scale.x(x):.1f}' y='{floor + 16:.1f}' text-anchor='middle'>{x:g}</text>"
            f"<text x='{_LEFT - 6}' y='{scale.y(y) + 4:.1f}' text-anchor='end'>{y:g}</text>"
        )
    middle = (_TOP + floor) / 2
    yield (
        f"<text x='{(_LEFT + right) / 2:.1f}' y='{_HEIGHT - 8}' text-anchor='middle'>"
        "mean overlap, h</text>"
        f"<text transform='translate(16 {middle:.1f}) rotate(-90)' text-anchor='middle'>"
        "mean interruption, h</text>"
    )


def _point(scale: _Scale, place: int, name: str, told: dict[str, Any]) -> Iterator[str]:
    """A numbered mark with its intervals, and its line in the legend."""
    colour = _OURS if name == AUTO else _OTHERS
    x, y = scale.x(told["overlap_h"]), scale.y(told["interruption_h"])
    low_x, high_x = map(scale.x, _reach(told, "overlap_h"))
    low_y, high_y = map(scale.y, _reach(told, "interruption_h"))
    label = escape(NAMES.get(name, name))
    legend = _TOP + 12 + 20 * place
    yield (
        f"<path d='M{low_x:.1f} {y:.1f}H{high_x:.1f}M{x:.1f} {low_y:.1f}V{high_y:.1f}' "
        f"stroke='{colour}'/><circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='{colour}'/>"
        f"<text x='{x + 6:.1f}' y='{y - 6:.1f}'>{place + 1}</text>"
        f"<text x='{_WIDTH - _RIGHT + 16}' y='{legend}'>{place + 1} {label}</text>"
    )


def _reach(told: dict[str, Any], figure: str) -> tuple[float, float]:
    low, high = told[f"{figure}_ci"] or (told[figure], told[figure])
    return min(low, told[figure]), max(high, told[figure])


def _round_up(hours: float) -> float:
    """To a number whose quarters read well."""
    return next((top for top in (0.4, 1, 2, 4, 8, 12, 20, 40, 80, 200) if hours <= top), hours)
