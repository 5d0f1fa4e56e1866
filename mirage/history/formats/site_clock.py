"""Converts a site's local times to epoch seconds, also in the hour that daylight saving repeats."""

import os
import time
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirage.errors import InputError
from mirage.slurm.commands.sacct_record import BadField

_TIMES = "in epoch seconds or as 2023-03-01T12:00:00"
_UNKNOWN = frozenset({"", "unknown", "none", "n/a", "invalid"})
_LONGEST = 18
"""A number with more digits is not a time in epoch seconds."""


def get_time_zone(name: str) -> tzinfo:
    """Return the zone of that name in the time zone database. Raises InputError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"no time zone {name!r} is known here: a name such as America/Chicago is expected"
        ) from None


def describe_zone(zone: tzinfo | None) -> str:
    """Return the zone's name; None: this host's zone, which may have no name but short ones."""
    if zone is not None:
        return str(zone)
    link = str(Path("/etc/localtime").resolve())
    name = os.environ.get("TZ", "").lstrip(":") or link.partition("/zoneinfo/")[2]
    return f"this host ({name or '/'.join(dict.fromkeys(time.tzname))})"


class SiteClock:
    """A site's local clock. Without a zone it is the clock of this host."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._has_read_local = False

    @property
    def local_zone(self) -> str | None:
        """The zone in which times without a zone were read; None: there was no such time so far."""
        return describe_zone(self._zone) if self._has_read_local else None

    def parse_epoch(self, text: str, field: str, not_before: int | None = None) -> int | None:
        """Parse a local time such as `2023-03-01T12:00:00`, or epoch seconds, into epoch seconds.
        None for Unknown.

        In the hour that daylight saving repeats, the first reading is taken, unless it lies before
        `not_before`.
        """
        readings = self.parse_readings(text, field)
        if not readings:
            return None
        return next(
            (reading for reading in readings if not_before is None or reading >= not_before),
            readings[0],
        )

    def parse_readings(self, text: str, field: str) -> tuple[int, ...]:
        """Return the instants that the text may mean, in epoch seconds: none for Unknown, and two,
        the earlier one first, in the hour that daylight saving repeats."""
        word = text.strip()
        if word.isascii() and word.isdigit():
            return _parse_epoch(word, field)
        if word.lower() in _UNKNOWN:
            return ()
        try:
            wall = datetime.fromisoformat(word)
        except ValueError:
            raise BadField(f"{field} is not a time {_TIMES}", word) from None
        return self._resolve_seconds(wall, field)

    def _resolve_seconds(self, wall: datetime, field: str) -> tuple[int, ...]:
        local = wall if wall.tzinfo else wall.replace(tzinfo=self._zone)
        self._has_read_local = self._has_read_local or wall.tzinfo is None
        try:
            first = int(local.timestamp())
            second = int(local.replace(fold=1).timestamp())
        except (OverflowError, ValueError, OSError):
            raise BadField(f"{field} is not a time {_TIMES}", str(wall)) from None
        # For a time that the clock skips in spring, the second reading is before the first.
        return (first, second) if second > first else (first,)


def _parse_epoch(word: str, field: str) -> tuple[int, ...]:
    """Parse epoch seconds. Slurm writes 0 for an event that has not happened."""
    if len(word) > _LONGEST:
        raise BadField(f"{field} is no time in epoch seconds", word)
    epoch = int(word)
    return (epoch,) if epoch else ()
