"""Draws a chain's timeline to scale with characters: a line for each link."""

import math
import time

from mirage_slurm.command.instants import DAY_S, HOUR_S, MINUTE_S, format_epoch
from mirage_slurm.command.terminal import Line

_BRIEF_S = 600
_STEPS_S = (
    (60, 120, 300, 600, 1800)
    + tuple(hours * HOUR_S for hours in (1, 2, 3, 6, 12))
    + tuple(days * DAY_S for days in (1, 2, 4, 7, 14, 28, 91, 182, 364))
)
_TICK_WIDTH = 13
"""The width of a label, `01-15 06:00`, with room between two labels."""
_LEAST_CELLS = 10
_NOTE_WIDTH = 34
_NOTES_FROM = 90
"""On narrower terminals notes stand below the drawing."""

_NAMES = ("waits", "interruption", "runs", "overlap", "rest", "forecast", "now", "tick")
UNICODE = dict(zip(_NAMES, ("·", "░", "█", "▓", "─", "├╌┼┤", "│", "┬")))
ASCII = dict(zip(_NAMES, (".", "!", "#", "%", "-", "[~+]", "|", "+")))
"""The marks by name; of a forecast: p10, between, p50, p90."""
_STYLES = dict(
    zip(_NAMES, ("dim", "bold red", "green", "bold yellow", "dim green", "cyan", "bold", "dim"))
)
_MEANINGS = (
    ("waits", "waits, eligible"),
    ("interruption", "interruption"),
    ("runs", "runs"),
    ("overlap", "overlap"),
    ("rest", "until its time limit"),
    ("forecast", "next start if freed, 8 of 10"),
)


class _Scale(object):
    __slots__ = ("begin", "cells", "end")

    def __init__(self, begin, end, cells):
        self.begin = begin
        self.end = end
        self.cells = cells

    def find_cell(self, at):
        """Return the index of the cell that holds an instant (epoch seconds)."""
        share = (at - self.begin) / (self.end - self.begin)
        return min(self.cells - 1, max(0, int(share * self.cells)))

    def list_cells(self, span):
        """Return the cells of a span; at least one, so that short spans are seen too."""
        first = self.find_cell(span[0])
        share = (span[1] - self.begin) / (self.end - self.begin)
        return range(first, min(self.cells, max(first + 1, round(share * self.cells))))


def draw_lines(timeline, width, ascii_only):
    """Yield the Lines of the drawing, at most `width` columns wide; none without links."""
    if not timeline.rows:
        return
    marks = ASCII if ascii_only else UNICODE
    labels = ["%4d %s " % (row.index, row.job_id) for row in timeline.rows]
    margin = max(map(len, labels))
    notes_fit = width >= _NOTES_FROM
    cells = max(_LEAST_CELLS, width - margin - (_NOTE_WIDTH if notes_fit else 0))
    scale = _Scale(timeline.span[0], timeline.span[1], cells)
    yield from _draw_axis(scale, timeline.now, margin, marks)
    used = set()
    for label, row in zip(labels, timeline.rows):
        line = Line(label.ljust(margin)) + _draw_link(row, scale, timeline.now, marks, used)
        yield line + Line(" " + _format_note(row)) if notes_fit else line
    yield from _draw_legend(used, marks, width)
    if not notes_fit:
        for row in timeline.rows:
            yield Line("link %d: %s" % (row.index, _format_note(row)))


def _draw_link(row, scale, now, marks, used):
    cells = [(" ", "")] * scale.cells
    cells[scale.find_cell(now)] = (marks["now"], _STYLES["now"])
    for name in ("rest", "waits", "runs", "overlap", "interruption"):
        span = getattr(row, name)
        if span is not None:
            used.add(name)
            for cell in scale.list_cells(span):
                cells[cell] = (marks[name], _STYLES[name])
    if row.forecast is not None:
        used.add("forecast")
        _draw_forecast(row.forecast, scale, marks, cells)
    return Line(*cells)


def _draw_forecast(forecast, scale, marks, cells):
    style = _STYLES["forecast"]
    left, between, middle, right = marks["forecast"]
    p10, p50, p90 = (scale.find_cell(at) for at in forecast)
    for cell in range(p10, p90 + 1):
        cells[cell] = (between, style)
    cells[p10], cells[p90] = (left, style), (right, style)
    cells[p50] = (middle, style)


def _draw_axis(scale, now, margin, marks):
    """Yield the line of labels, with the year in front, and the line of marks below it."""
    labels = [" "] * scale.cells
    ticks = [(" ", "")] * scale.cells
    free = 0
    for at in _compute_ticks(scale):
        cell, text = scale.find_cell(at), format_epoch(at, "%m-%d %H:%M")
        ticks[cell] = (marks["tick"], _STYLES["tick"])
        if cell >= free and cell + len(text) <= scale.cells:
            labels[cell : cell + len(text)] = text
            free = cell + len(text) + 1
    ticks[scale.find_cell(now)] = (marks["now"], _STYLES["now"])
    year = format_epoch(scale.begin, "%Y").rjust(4)
    yield Line(year.ljust(margin) + "".join(labels).rstrip())
    yield Line("link".ljust(margin), *ticks)


def _compute_ticks(scale):
    """Yield round instants in this host's time zone, as many as have room for their labels."""
    room_s = (scale.end - scale.begin) * _TICK_WIDTH / scale.cells
    step_s = next((step for step in _STEPS_S if step >= room_s), _STEPS_S[-1])
    first_day = time.localtime(scale.begin)
    midnight = math.floor(scale.begin) - (
        first_day.tm_hour * HOUR_S + first_day.tm_min * MINUTE_S + first_day.tm_sec)  # fmt: skip
    first = math.ceil((scale.begin - midnight) / step_s)
    last = int((scale.end - midnight) / step_s)
    for count in range(first, last + 1):
        yield midnight + count * step_s


def _draw_legend(used, marks, width):
    """Draw the meaning of each mark that was used, in as many lines as it takes."""
    line = Line()
    for name, meaning in [pair for pair in _MEANINGS if pair[0] in used] + [("now", "now")]:
        item = Line((marks[name], _STYLES[name]), " %s   " % (meaning,))
        if line.parts and len(line.plain) + len(item.plain) > width:
            yield line
            line = Line()
        line += item
    yield line


def _format_note(row):
    """Return a link's note and the interruption or overlap of its hand-over."""
    parts = [row.note]
    if row.interruption is not None:
        parts.append("%s interrupted" % (_format_span(row.interruption),))
    if row.overlap is not None:
        parts.append("%s overlap" % (_format_span(row.overlap),))
    return ", ".join(part for part in parts if part)


def _format_span(span):
    """Format a span in seconds or minutes if it is short, else in hours."""
    seconds = span[1] - span[0]
    if seconds < _BRIEF_S:
        return "%.0f s" % (seconds,) if seconds < MINUTE_S else "%.0f min" % (seconds / MINUTE_S,)
    return "%.2f h" % (seconds / HOUR_S,)
