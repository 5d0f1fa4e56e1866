"""Formats instants, durations and counts for people. Instants are epoch seconds, shown in UTC."""

import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MANY_DAYS = 10
_CLOCKS_DIFFER_S = 5
"""An instant that is no further ahead has passed, by a clock that goes a little faster."""
_CODE = re.compile("`([^`]+)`")
_ISO = "%Y-%m-%dT%H:%M:%SZ"
_SPAN = re.compile(
    "<time datetime='(?P<at>[^']*)' data-age='-?[0-9]+'(?: data-started='(?P<started>[a-z ]*)')?>"
    "[^<]*</time>"
)


def _to_datetime(instant: int) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def render_instant(instant: int | None, now: int | None = None) -> Markup:
    """Return a <time> element: 2 Mar 12:00, with the year if it is not the year of `now`."""
    if instant is None:
        return Markup("<span class='dim'>not yet</span>")
    at = _to_datetime(instant)
    return Markup("<time datetime='{}' title='{}'>{}</time>").format(
        at.strftime(_ISO),
        at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        format_day(instant, now),
    )


def format_day(instant: int, now: int | None = None) -> str:
    """Return 2 Mar 12:00; or 2 Mar 2026 12:00 if it is not the year of `now`."""
    at = _to_datetime(instant)
    is_this_year = now is not None and _to_datetime(now).year == at.year
    return f"{at.day} {at:%b %H:%M}" if is_this_year else f"{at.day} {at:%b} {at.year} {at:%H:%M}"


def format_clock(instant: int) -> str:
    return f"{_to_datetime(instant):%H:%M:%S} UTC"


def render_span(instant: int, now: int, *, started: str = "") -> Markup:
    """Return a <time> element that says 34 s ago or in 12 min; the page's script keeps it counting.

    `started` is said in place of "ago" once the instant has passed.
    """
    mark = Markup(" data-started='{}'").format(started) if started else ""
    return Markup("<time datetime='{}' data-age='{}'{}>{}</time>").format(
        _to_datetime(instant).strftime(_ISO),
        now - instant,
        mark,
        format_span(instant, now, started),
    )


def format_span(instant: int, now: int, started: str = "") -> str:
    """Return 34 s ago or in 12 min. `started`: as for `render_span`."""
    if instant > now + _CLOCKS_DIFFER_S:
        return f"in {format_duration(instant - now)}"
    return started or f"{format_duration(max(0, now - instant))} ago"


def update_spans(html: str, now: int) -> str:
    """Return the page with its spans counted from `now`."""
    return _SPAN.sub(
        lambda span: render_span(_read_instant(span["at"]), now, started=span["started"] or ""),
        html,
    )


def remove_spans(html: str) -> str:
    """Return the page without its spans, which change by the second."""
    return _SPAN.sub(lambda span: span["at"], html)


def _read_instant(text: str) -> int:
    return int(datetime.strptime(text, _ISO).replace(tzinfo=UTC).timestamp())


def format_duration(seconds: float | None) -> str:
    """Return 34 s, 12 min, 3 h 20 min or 2 d 4 h, with a minus if negative; "unknown" for None."""
    if seconds is None:
        return "unknown"
    sign, whole = ("-" if seconds < 0 else ""), abs(round(seconds))
    if whole < 2 * _MINUTE:
        return f"{sign}{whole} s"
    if whole < 2 * _HOUR:
        return f"{sign}{round(whole / _MINUTE)} min"
    if whole < 2 * _DAY:
        hours, minutes = divmod(round(whole / _MINUTE), 60)
        return f"{sign}{hours} h" + (f" {minutes} min" if minutes else "")
    days, hours = divmod(round(whole / _HOUR), 24)
    return f"{sign}{days} d" + (f" {hours} h" if hours and days < _MANY_DAYS else "")


def format_hours(value: float) -> str:
    """Return 0 h, 0.25 h, 12.5 h or 1,340 h."""
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0  # noqa: PLR2004
    text = f"{value:z,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} h"


def render_code(text: str) -> Markup:
    """Return the text as HTML, with each part in `backticks` as <code>."""
    parts = enumerate(_CODE.split(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in parts
    )


def format_count(number: int, singular: str, plural: str = "") -> str:
    """Return 1 chain, 2 chains or 2,000 chains; `plural` if it is not the singular + s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
