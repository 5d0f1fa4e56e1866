"""Draws the charts of the page Impact: hours saved against each baseline, and day by day."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from mirage.domain.time_units import DAY_S
from mirage.reports.impact import DayImpact, HandoverTotals, Saving
from mirage.reports.recommendation import LABELS
from mirage.web.charts import svg
from mirage.web.charts.scales import LinearScale, TimeScale
from mirage.web.formatting import format_hours, render_instant

_WIDTH, _LEFT, _RIGHT, _TOP = 640, 158, 90, 12
_ROW, _BAR = 34, 16
_DAYS_HEIGHT, _DAYS_RIGHT, _BOTTOM = 250, 24, 30


def get_baseline_name(baseline: str) -> str:
    """Return the baseline's name as people read it."""
    return LABELS.get(baseline, baseline)


def draw_baselines(part: HandoverTotals, name: str) -> Markup:
    """Draw a bar for each baseline, with its interval: right of the line is saved, left is lost."""
    if not part.saved:
        return Markup("")
    ends = [end for saving in part.saved for end in (saving.interruption_saved_h_ci or ())]
    values = [*ends, *(saving.interruption_saved_h for saving in part.saved), 0.0]
    low, high = min(values), max(*values, 0.5)
    x = LinearScale(low, high, _LEFT, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(part.saved)
    parts = [
        svg.draw_x_axis(
            x, top=_TOP, bottom=bottom, label="hours of interruption saved", max_ticks=6
        )
    ]
    for place, saving in enumerate(part.saved):
        parts += _draw_saved(saving, x, _TOP + _ROW * place + _ROW / 2)
    parts.append(svg.draw_rule(x(0), _TOP, x(0), bottom, cls="end"))
    desc = " ".join(
        f"Compared with {get_baseline_name(saving.baseline)}: {_describe_saved(saving)}."
        for saving in part.saved
    )
    title = "Interruption saved, compared with each policy"
    return svg.draw_figure(_WIDTH, bottom + 40, parts, name=name, title=title, desc=desc)


def _draw_saved(saving: Saving, x: LinearScale, middle: float) -> Iterator[Markup]:
    begin, end = sorted((x(0), x(saving.interruption_saved_h)))
    cls = "bar c2" if saving.interruption_saved_h >= 0 else "bar gap"
    yield svg.draw_text(_LEFT - 10, middle + 4, get_baseline_name(saving.baseline), anchor="end")
    tooltip = f"compared with {get_baseline_name(saving.baseline)}: {_describe_saved(saving)}"
    yield svg.draw_bar(begin, middle - _BAR / 2, end - begin, _BAR, cls=cls, tooltip=tooltip)
    right = end
    if saving.interruption_saved_h_ci is not None:
        low, high = (x(value) for value in saving.interruption_saved_h_ci)
        yield svg.draw_rule(low, middle, high, middle, cls="end")
        for at in (low, high):
            yield svg.draw_rule(at, middle - 5, at, middle + 5, cls="end")
        right = max(right, high)
    yield svg.draw_text(right + 8, middle + 4, format_hours(saving.interruption_saved_h))


def _describe_saved(saving: Saving) -> str:
    ends = saving.interruption_saved_h_ci
    interval = (
        ""
        if ends is None
        else f", 95 % interval {format_hours(ends[0])} to {format_hours(ends[1])}"
    )
    return f"{format_hours(saving.interruption_saved_h)}{interval}"


def draw_days(days: Sequence[DayImpact]) -> Markup:
    """Draw the hours saved against plain afterany: measured hours in full, estimated ones paler."""
    if not days:
        return Markup("")
    width = 1000
    low = min([0.0, *(min(d.act_saved_h, d.shadow_saved_h) for d in days)])
    high = max([0.5, *(max(d.act_saved_h, d.shadow_saved_h) for d in days)])
    bottom = _DAYS_HEIGHT - _BOTTOM
    x = TimeScale(days[0].at, days[-1].at + DAY_S, 60, width - _DAYS_RIGHT)
    y = LinearScale(low, high, bottom, 28)
    parts = [
        svg.draw_x_axis(x, top=28, bottom=bottom),
        svg.draw_y_axis(
            y, left=60, right=width - _DAYS_RIGHT, label="hours saved a day, against afterany"
        ),
    ]
    wide = (x(days[0].at + DAY_S) - x(days[0].at)) * 0.4
    for day in days:
        for place, (value, cls, mode) in enumerate(
            ((day.act_saved_h, "bar c2", "act"), (day.shadow_saved_h, "bar done", "shadow"))
        ):
            if value:
                left = x(day.at) + wide * (0.25 + place)
                top, end = sorted((y(value), y(0)))
                tooltip = (
                    f"{render_instant(day.at).striptags()}, mode {mode}: {format_hours(value)}"
                )
                parts.append(
                    svg.draw_bar(left, top, wide * 0.9, end - top, cls=cls, tooltip=tooltip)
                )
    parts.append(svg.draw_rule(60, y(0), width - _DAYS_RIGHT, y(0), cls="rule"))
    act, shadow = sum(d.act_saved_h for d in days), sum(d.shadow_saved_h for d in days)
    return svg.draw_figure(
        width,
        _DAYS_HEIGHT,
        parts,
        name="days",
        title="Hours saved day by day",
        desc=f"In all {format_hours(act)} saved in mode act, and {format_hours(shadow)} that would "
        f"have been saved in mode shadow, on {len(days)} days.",
    )
