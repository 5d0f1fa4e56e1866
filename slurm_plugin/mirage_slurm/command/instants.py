"""Instants and durations, as people read them. Times are in this host's zone, as in squeue."""

import calendar
import re
import time

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|([+-])(\d\d):(\d\d))?$")
_YEAR = len("2027-")


def parse_instant(text):
    """Return the epoch seconds of an RFC 3339 instant; None for None. Raises ValueError."""
    if text is None:
        return None
    match = _INSTANT.match(text)
    if match is None:
        raise ValueError("not an instant: %r" % (text,))
    day_and_time, fraction, sign, hours, minutes = match.groups()
    seconds = calendar.timegm(time.strptime(day_and_time, "%Y-%m-%dT%H:%M:%S")) + float(
        fraction or 0
    )
    offset_s = int(hours or 0) * HOUR_S + int(minutes or 0) * MINUTE_S
    return seconds + offset_s if sign == "-" else seconds - offset_s


def to_rfc3339(seconds):
    """Return the RFC 3339 instant in UTC of these epoch seconds, as the service writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def format_epoch(seconds, pattern="%Y-%m-%d %H:%M"):
    return time.strftime(pattern, time.localtime(seconds))


def format_instant(text):
    """Format an RFC 3339 instant in this host's time zone, to the minute; `-` for None."""
    return "-" if text is None else format_epoch(parse_instant(text))


def format_day_and_time(text):
    """Format an instant as day and time, for places where the reader knows the year."""
    return format_instant(text)[_YEAR:] if text else format_instant(text)


def format_duration(seconds):
    """Format a duration in its one or two largest units; `-` for None."""
    if seconds is None:
        return "-"
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    if whole < MINUTE_S:
        return "%s%d s" % (sign, whole)
    if whole < HOUR_S:
        return "%s%d min" % (sign, whole // MINUTE_S)
    if whole < DAY_S:
        return "%s%d h %d min" % (sign, whole // HOUR_S, whole % HOUR_S // MINUTE_S)
    return "%s%d d %d h" % (sign, whole // DAY_S, whole % DAY_S // HOUR_S)
