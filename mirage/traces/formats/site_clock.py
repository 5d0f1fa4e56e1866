"""Wall-clock text of a site to epoch seconds, through the hour that a year has twice."""

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirage.errors import InputError
from mirage.slurm.commands.sacct_record import BadField

_TIMES = "in epoch seconds or as 2023-03-01T12:00:00"
_UNKNOWN = frozenset({"", "unknown", "none", "n/a", "invalid"})
_LONGEST = 18
"""Digits of a number that means anything."""


def get_time_zone(name: str) -> tzinfo:
    """The zone of that name in the time zone database."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"no time zone {name!r} is known here: a name such as America/Chicago is expected"
        ) from None


class SiteClock:
    """A site's clock on the wall; without a zone, that of this host."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    def parse_epoch(self, text: str, what: str, not_before: int | None = None) -> int | None:
        """Epoch seconds of `2023-03-01T12:00:00` (local) or of epoch seconds; None for Unknown.

        In the hour that daylight saving repeats the first reading is taken, unless it lies before
        `not_before`.
        """
        found = self.parse_readings(text, what)
        if not found:
            return None
        return next((one for one in found if not_before is None or one >= not_before), found[0])

    def parse_readings(self, text: str, what: str) -> tuple[int, ...]:
        """The instants that the text may mean: none for Unknown, two in the hour that is repeated,
        the earlier first."""
        word = text.strip()
        if word.isascii() and word.isdigit():
            return _parse_epoch(word, what)
        if word.lower() in _UNKNOWN:
            return ()
        try:
            wall = datetime.fromisoformat(word)
        except ValueError:
            raise BadField(f"{what} is not a time {_TIMES}", word) from None
        return self._resolve_seconds(wall, what)

    def _resolve_seconds(self, wall: datetime, what: str) -> tuple[int, ...]:
        local = wall if wall.tzinfo else wall.replace(tzinfo=self._zone)
        try:
            first = int(local.timestamp())
            second = int(local.replace(fold=1).timestamp())
        except (OverflowError, ValueError, OSError):
            raise BadField(f"{what} is not a time {_TIMES}", str(wall)) from None
        # Of a time that the clock leaps over, the two readings stand in the other order.
        return (first, second) if second > first else (first,)


def _parse_epoch(word: str, what: str) -> tuple[int, ...]:
    """Slurm writes 0 for what has not been."""
    if len(word) > _LONGEST:
        raise BadField(f"{what} is no time in epoch seconds", word)
    found = int(word)
    return (found,) if found else ()
