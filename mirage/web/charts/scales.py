"""Maps values to pixels: numbers, hours, instants, and waits on a logarithmic scale."""

from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Protocol

_MINUTE, _HOUR, _DAY = 60, 3600, 86400

Tick = tuple[float, str]
"""A value and how it is written."""

_HOUR_STEPS = (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168, 336)
_MINUTE_STEPS = (1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200)
_WAITS: tuple[Tick, ...] = (
    *((1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3600.0, "1 h")),
    *((6 * 3600.0, "6 h"), (86400.0, "1 d"), (7 * 86400.0, "7 d"), (30 * 86400.0, "30 d")),
)


class Scale(Protocol):
    """Maps the values `low` to `high` to the pixels `at_low` to `at_high`."""

    @property
    def at_low(self) -> float: ...
    @property
    def at_high(self) -> float: ...
    def __call__(self, value: float) -> float: ...
    def list_ticks(self, max_ticks: int) -> list[Tick]:
        """Return round values within the scale, about `max_ticks` of them at most."""
        ...


@dataclass(frozen=True)
class LinearScale:
    low: float
    high: float
    at_low: float
    at_high: float

    def __call__(self, value: float) -> float:
        width = self.high - self.low or 1.0
        return self.at_low + (value - self.low) / width * (self.at_high - self.at_low)

    def clamp_to_pixel(self, value: float) -> float:
        """Return the pixel of the value, or of the scale's end if the value lies beyond it."""
        return self(min(max(value, self.low), self.high))

    def list_ticks(self, max_ticks: int = 8) -> list[Tick]:
        step = _round_step((self.high - self.low) / max_ticks)
        return [(value, f"{value:g}") for value in _list_multiples(self.low, self.high, step)]


class HoursScale(LinearScale):
    """A linear scale of hours."""

    def list_ticks(self, max_ticks: int = 8) -> list[Tick]:
        min_step = (self.high - self.low) / max_ticks
        step = next((s for s in _HOUR_STEPS if s >= min_step), _round_step(min_step))
        return [(value, f"{value:g} h") for value in _list_multiples(self.low, self.high, step)]


class TimeScale(LinearScale):
    """A linear scale of instants in epoch seconds; the ticks are round in UTC."""

    def list_ticks(self, max_ticks: int = 8) -> list[Tick]:
        min_step = (self.high - self.low) / max_ticks
        steps = (minutes * _MINUTE for minutes in _MINUTE_STEPS)
        step = next((s for s in steps if s >= min_step), 90 * _DAY)
        return [
            (at, _format_instant(at, step)) for at in _list_multiples(self.low, self.high, step)
        ]


class WaitScale(LinearScale):
    """A logarithmic scale of seconds; values below `low` lie at `low`."""

    def __call__(self, value: float) -> float:
        begin, end = log10(self.low), log10(self.high)
        share = (log10(max(value, self.low)) - begin) / (end - begin or 1.0)
        return self.at_low + share * (self.at_high - self.at_low)

    def list_ticks(self, max_ticks: int = 8) -> list[Tick]:
        ticks = [tick for tick in _WAITS if self.low <= tick[0] <= self.high]
        return ticks[:: max(1, ceil(len(ticks) / max_ticks))]


def _list_multiples(low: float, high: float, step: float) -> list[float]:
    """Return the multiples of `step` within [low, high], each computed from its number.

    Adding `step` again and again would add up rounding errors.
    """
    return [n * step for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def _round_step(min_step: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is at least `min_step`."""
    if min_step <= 0:
        return 1.0
    power = 10.0 ** floor(log10(min_step))
    return next((f * power for f in (1, 2, 5) if f * power >= min_step * (1 - 1e-9)), 10 * power)


def _format_instant(at: float, step: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    if step >= _DAY or moment.hour == moment.minute == 0:
        return f"{moment.day} {moment:%b}"
    return f"{moment:%H:%M}"
