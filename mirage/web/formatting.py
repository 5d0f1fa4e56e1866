"""Formats instants, durations and counts for people. Instants are epoch seconds, shown in UTC."""

import re
from datetime import UTC, datetime

from markupsafe import Markup, escape

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MANY_DAYS = 10
_CODE = re.compile("`([^`]+)`")


def _to_datetime(instant: int) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def render_instant(instant: int | None, now: int | None = None) -> Markup:
    """Return a <time> element: 2 Mar 12:00, with the year if it is not the year of `now`."""
    if instant is None:
        return Markup("<span class='dim'>not yet</span>")
    at = _to_datetime(instant)
    return Markup("<time datetime='{}' title='{}'>{}</time>").format(
        at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        format_day(instant, now),
    )


def format_day(instant: int, now: int | None = None) -> str:
    """Return 2 Mar 12:00; or 2 Mar 2026 12:00 if it is not the year of `now`."""
    at = _to_datetime(instant)
    known = now is not None and _to_datetime(now).year == at.year
    return f"{at.day} {at:%b %H:%M}" if known else f"{at.day} {at:%b} {at.year} {at:%H:%M}"


def format_clock(instant: int) -> str:
    return f"{_to_datetime(instant):%H:%M:%S} UTC"


def render_age(instant: int, now: int) -> Markup:
    """Return a <time> element that says 34 s ago; the page's script keeps it counting."""
    seconds = max(0, now - instant)
    return Markup("<time datetime='{}' data-age='{}'>{} ago</time>").format(
        _to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%SZ"), seconds, format_duration(seconds)
    )


def format_duration(seconds: float | None) -> str:
    """Return 34 s, 12 min, 3 h 20 min or 2 d 4 h, with a minus if negative; "unknown" for None."""
    if seconds is None:
        return "unknown"
    sign, left = ("-" if seconds < 0 else ""), abs(round(seconds))
    if left < 2 * _MINUTE:
        return f"{sign}{left} s"
    if left < 2 * _HOUR:
        return f"{sign}{round(left / _MINUTE)} min"
    if left < 2 * _DAY:
        hours, minutes = divmod(round(left / _MINUTE), 60)
        return f"{sign}{hours} h" + (f" {minutes} min" if minutes else "")
    days, hours = divmod(round(left / _HOUR), 24)
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


def format_count(number: int, one: str, many: str = "") -> str:
    """Return 1 chain, 2 chains or 2,000 chains; `many` is the plural if it is not `one` + s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
