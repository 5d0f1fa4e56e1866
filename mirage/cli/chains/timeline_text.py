"""Draws a chain's timeline to scale with characters: a line for each link."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from rich.text import Text

from mirage.cli.chains.timeline_rows import LinkRow, Timeline, TimeSpan

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_BRIEF_S = 600
_STEPS_S = (60, 120, 300, 600, 1800, *(h * _HOUR_S for h in (1, 2, 3, 6, 12)))
_STEPS_D = (1, 2, 4, 7, 14, 28, 91, 182, 364)
_TICK_WIDTH = 13
"""The width of a label, `01-15 06:00`, with room between two labels."""
_LEAST_CELLS = 10
_NOTE_WIDTH = 34
_NOTES_FROM = 90
"""On narrower terminals notes stand below the drawing."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    waits: str
    interruption: str
    runs: str
    overlap: str
    rest: str
    edges: tuple[str, str, str, str]
    """Of a forecast: p10, between, p50, p90."""
    now: str
    tick: str


UNICODE = Glyphs("·", "░", "█", "▓", "─", ("├", "╌", "┼", "┤"), "│", "┬")
ASCII = Glyphs(".", "!", "#", "%", "-", ("[", "~", "+", "]"), "|", "+")

_STYLES = {
    "waits": "dim",
    "interruption": "bold red",
    "runs": "green",
    "overlap": "bold yellow",
    "rest": "dim green",
    "forecast": "cyan",
    "now": "bold",
}
_MEANING = {
    "waits": "waits, eligible",
    "interruption": "interruption",
    "runs": "runs",
    "overlap": "overlap",
    "rest": "until its time limit",
    "forecast": "next start if freed, 8 of 10",
    "now": "now",
}


@dataclass(frozen=True, slots=True)
class _Scale:
    begin: float
    end: float
    cells: int

    def find_cell(self, at: float) -> int:
        """Return the index of the cell that holds an instant (epoch seconds)."""
        share = (at - self.begin) / (self.end - self.begin)
        return min(self.cells - 1, max(0, int(share * self.cells)))

    def list_cells(self, span: TimeSpan) -> range:
        """Return the cells of a span; at least one, so that short spans are seen too."""
        first = self.find_cell(span[0])
        share = (span[1] - self.begin) / (self.end - self.begin)
        return range(first, min(self.cells, max(first + 1, round(share * self.cells))))


def draw_lines(timeline: Timeline, width: int, *, ascii_only: bool) -> Iterator[Text]:
    """Yield the lines of the drawing, at most `width` columns wide; none without links."""
    if not timeline.rows:
        return
    glyphs = ASCII if ascii_only else UNICODE
    labels = [f"{row.index:>4} {row.job_id} " for row in timeline.rows]
    margin = max(map(len, labels))
    notes_fit = width >= _NOTES_FROM
    cells = max(_LEAST_CELLS, width - margin - (_NOTE_WIDTH if notes_fit else 0))
    scale = _Scale(*timeline.span, cells)
    yield from _draw_axis(scale, timeline.now, margin, glyphs)
    used_marks: set[str] = set()
    for label, row in zip(labels, timeline.rows, strict=True):
        line = Text(label.ljust(margin)) + _draw_link(row, scale, timeline.now, glyphs, used_marks)
        yield line + Text(f" {_format_note(row)}") if notes_fit else line
    yield from _draw_legend(used_marks, glyphs, width)
    if not notes_fit:
        yield from (Text(f"link {row.index}: {_format_note(row)}") for row in timeline.rows)


def _draw_link(
    row: LinkRow, scale: _Scale, now: float, glyphs: Glyphs, used_marks: set[str]
) -> Text:
    cells: list[tuple[str, str]] = [(" ", "")] * scale.cells
    cells[scale.find_cell(now)] = (glyphs.now, _STYLES["now"])
    for name in ("rest", "waits", "runs", "overlap", "interruption"):
        span = getattr(row, name)
        if span is not None:
            used_marks.add(name)
            for cell in scale.list_cells(span):
                cells[cell] = (getattr(glyphs, name), _STYLES[name])
    if row.forecast is not None:
        used_marks.add("forecast")
        _draw_forecast(row.forecast, scale, glyphs, cells)
    return Text.assemble(*cells)


def _draw_forecast(
    forecast: tuple[float, float, float],
    scale: _Scale,
    glyphs: Glyphs,
    cells: list[tuple[str, str]],
) -> None:
    style = _STYLES["forecast"]
    left, between, middle, right = glyphs.edges
    p10, p50, p90 = (scale.find_cell(at) for at in forecast)
    for cell in range(p10, p90 + 1):
        cells[cell] = (between, style)
    cells[p10], cells[p90] = (left, style), (right, style)
    cells[p50] = (middle, style)


def _draw_axis(scale: _Scale, now: float, margin: int, glyphs: Glyphs) -> Iterator[Text]:
    """Yield the line of labels, with the year in front, and the line of marks below it."""
    labels = [" "] * scale.cells
    marks = [(" ", "")] * scale.cells
    free = 0
    for at in _compute_ticks(scale):
        cell, text = (
            scale.find_cell(at),
            datetime.fromtimestamp(at).astimezone().strftime("%m-%d %H:%M"),
        )
        marks[cell] = (glyphs.tick, "dim")
        if cell >= free and cell + len(text) <= scale.cells:
            labels[cell : cell + len(text)] = text
            free = cell + len(text) + 1
    marks[scale.find_cell(now)] = (glyphs.now, _STYLES["now"])
    year = datetime.fromtimestamp(scale.begin).astimezone().strftime("%Y")
    yield Text(f"{year:>4}".ljust(margin) + "".join(labels).rstrip())
    yield Text.assemble("link".ljust(margin), *marks)


def _compute_ticks(scale: _Scale) -> Iterator[float]:
    """Yield round instants in this host's time zone, as many as have room for their labels."""
    room_s = (scale.end - scale.begin) * _TICK_WIDTH / scale.cells
    steps = (*_STEPS_S, *(days * _DAY_S for days in _STEPS_D))
    step_s = next((step for step in steps if step >= room_s), steps[-1])
    midnight = datetime.fromtimestamp(scale.begin).astimezone()
    midnight = midnight.replace(hour=0, minute=0, second=0, microsecond=0)
    first = ceil((scale.begin - midnight.timestamp()) / step_s)
    last = int((scale.end - midnight.timestamp()) / step_s)
    for k in range(first, last + 1):
        yield (midnight + timedelta(seconds=k * step_s)).timestamp()


def _draw_legend(used_marks: set[str], glyphs: Glyphs, width: int) -> Iterator[Text]:
    """Draw the meaning of each mark that was used, in as many lines as it takes."""
    line = Text()
    for name in (*(n for n in _MEANING if n in used_marks), "now"):
        mark = "".join(glyphs.edges) if name == "forecast" else getattr(glyphs, name)
        item = Text.assemble((mark, _STYLES[name]), f" {_MEANING[name]}   ")
        if line and len(line) + len(item) > width:
            yield line
            line = Text()
        line += item
    yield line


def _format_note(row: LinkRow) -> str:
    """Return a link's note and the interruption or overlap of its hand-over."""
    parts = [row.note]
    if row.interruption is not None:
        parts.append(f"{_format_span(row.interruption)} interrupted")
    if row.overlap is not None:
        parts.append(f"{_format_span(row.overlap)} overlap")
    return ", ".join(part for part in parts if part)


def _format_span(span: TimeSpan) -> str:
    """Format a span in seconds or minutes if it is short, else in hours."""
    seconds = span[1] - span[0]
    if seconds < _BRIEF_S:
        return f"{seconds:.0f} s" if seconds < _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.2f} h"
