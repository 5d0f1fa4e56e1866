"""Wall-clock text of a site to epoch seconds, through the hour that a year has twice."""

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mirage.errors import InputError
from mirage.traces.row import RowRefused

_TIMES = "in epoch seconds or as 2023-03-01T12:00:00"
_UNKNOWN = frozenset({"", "unknown", "none", "n/a", "invalid"})


def time_zone(name: str) -> tzinfo:
    """The zone of that name in the time zone database."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"no time zone {name!r} is known here: a name such as America/Chicago is expected"
        ) from None


class Clock:
    """A site's clock on the wall; without a zone, that of this host."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    def epoch(self, text: str, what: str, not_before: int | None = None) -> int | None:
        """Epoch seconds of `2023-03-01T12:00:00` (local) or of epoch seconds; None for Unknown.

        In the hour that daylight saving repeats the first reading is taken, unless it lies before
        `not_before`.
        """
        word = text.strip()
        if word.isdecimal():
            return int(word)
        if word.lower() in _UNKNOWN:
            return None
        try:
            wall = datetime.fromisoformat(word)
        except ValueError:
            raise RowRefused(f"{what} is not a time {_TIMES}") from None
        return self._seconds(wall, what, not_before)

    def _seconds(self, wall: datetime, what: str, not_before: int | None) -> int:
        local = wall if wall.tzinfo else wall.replace(tzinfo=self._zone)
        try:
            first = int(local.timestamp())
            if not_before is not None and first < not_before:
                second = int(local.replace(fold=1).timestamp())
                return second if second >= not_before else first
        except (OverflowError, ValueError, OSError):
            raise RowRefused(f"{what} is not a time {_TIMES}") from None
        return first
