"""Draws the next hand-overs on one time axis: the predecessor's end, the successor's start."""

from collections.abc import Sequence

from markupsafe import Markup

from mirage.chains.start_range import StartRange
from mirage.domain.chain import ChainMode
from mirage.reports.overview import UpcomingHandover
from mirage.web.charts import svg
from mirage.web.charts.scales import TimeScale
from mirage.web.formatting import format_day

_WIDTH, _LEFT, _RIGHT, _TOP = 1240, 200, 16, 30
_ROW, _BAR = 30, 10
_BEFORE_S, _MARGIN = 1800, 0.04
_LEAST_S = 2 * 3600


def draw_upcoming(upcoming: Sequence[UpcomingHandover], at: int, label: str = "now") -> Markup:
    """Draw a row for each hand-over as it stood at `at`, when the queue was read (epoch seconds).

    `label` names that instant on the chart.
    """
    rows = [(row, predecessor_end) for row in upcoming if (predecessor_end := row.ends) is not None]
    if not rows:
        return Markup("")
    bottom = _TOP + _ROW * len(rows)
    scale = _build_scale(rows, at)
    parts = [svg.draw_x_axis(scale, top=_TOP - 6, bottom=bottom)]
    for place, (row, predecessor_end) in enumerate(rows):
        parts += _draw_row(row, predecessor_end, scale, _TOP + place * _ROW, at)
    x = scale(at)
    parts.append(svg.draw_rule(x, _TOP - 8, x, bottom, cls="now", tooltip=label))
    parts.append(svg.draw_text(x, _TOP - 13, label, cls="tick", anchor="middle"))
    desc = " ".join(f"{_describe_row(row, predecessor_end, at)}." for row, predecessor_end in rows)
    return svg.draw_figure(
        _WIDTH, bottom + 24, parts, name="soon", title="The next hand-overs", desc=desc
    )


def _build_scale(rows: Sequence[tuple[UpcomingHandover, int]], now: int) -> TimeScale:
    """Return a scale from a little before now to the last expected event."""
    ends = max(ends for _, ends in rows)
    latest_starts = [start.p90 for row, _ in rows if (start := row.start) is not None]
    latest_starts += [row.planned for row, _ in rows if row.planned is not None]
    # One forecast of weeks must not make the next hours invisible.
    last = min(max([*latest_starts, ends, now + _BEFORE_S]), now + 3 * max(ends - now, _LEAST_S))
    first = now - max(_BEFORE_S, (last - now) // 12)
    return TimeScale(first, last + (last - first) * _MARGIN, _LEFT, _WIDTH - _RIGHT)


def _draw_row(
    row: UpcomingHandover, predecessor_end: int, scale: TimeScale, top: float, now: int
) -> list[Markup]:
    handover = row.handover
    middle = top + _ROW / 2
    at = scale.clamp_to_pixel(predecessor_end)
    name = f"{handover.chain.chain_id} link {handover.standby.index}"
    parts = [
        svg.draw_text(6, middle + 4, name, cls="name"),
        svg.draw_bar(
            scale.at_low,
            middle - _BAR,
            at - scale.at_low,
            _BAR,
            cls="run",
            tooltip=f"link {handover.predecessor.index} {_describe_end(row, predecessor_end, now)}",
        ),
    ]
    if (start := row.start) is not None:
        begin, median, last = (scale.clamp_to_pixel(t) for t in (start.p10, start.p50, start.p90))
        cls = "range free" if start.is_free else "range"
        tooltip = _describe_range(row, start, now)
        parts.append(
            svg.draw_bar(begin, middle + 2, last - begin, _BAR - 1, cls=cls, tooltip=tooltip)
        )
        parts.append(svg.draw_diamond(median, middle + 2 + (_BAR - 1) / 2, cls="median"))
    if (planned := row.planned) is not None:
        x, tooltip = scale.clamp_to_pixel(planned), _describe_plan(planned, now)
        parts.append(
            svg.draw_rule(x, middle + 1, x, middle + _BAR + 2, cls="planned", tooltip=tooltip)
        )
    parts.append(svg.draw_rule(at, middle - _BAR - 2, at, middle + _BAR + 3, cls="end"))
    return parts


def _describe_end(row: UpcomingHandover, predecessor_end: int, now: int) -> str:
    has_ended = row.handover.predecessor.end is not None
    return f"{'ended' if has_ended else 'ends'} {format_day(predecessor_end, now)}"


def _describe_row(row: UpcomingHandover, predecessor_end: int, now: int) -> str:
    handover = row.handover
    words = [
        f"Chain {handover.chain.chain_id}: "
        f"link {handover.predecessor.index} {_describe_end(row, predecessor_end, now)}"
    ]
    if row.start is not None:
        words.append(_describe_range(row, row.start, now))
    if row.planned is not None:
        words.append(_describe_plan(row.planned, now))
    return "; ".join(words)


def _describe_plan(at: int, now: int) -> str:
    return f"Slurm plans its start for {format_day(at, now)}"


def _describe_range(row: UpcomingHandover, start: StartRange, now: int) -> str:
    index = row.handover.standby.index
    if start.is_free:
        condition = f"link {index} is eligible and"
    elif row.handover.chain.mode is ChainMode.SUBMIT:
        condition = f"if submitted now, link {index}"
    else:
        condition = f"if made eligible now, link {index}"
    p10, p50, p90 = (format_day(at, now) for at in (start.p10, start.p50, start.p90))
    return f"{condition} starts {p10} to {p90}, about {p50}"
