"""When a service without systemd looks whether there is something to learn."""

import time
from collections.abc import Iterator

import pytest

from mirage.service.nightly_learning import compute_next_start

HOUR = 3600
SINCE = 1_772_000_000
"""25 February 2026: both changes of the clock follow within the year."""


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/Chicago", "Pacific/Chatham"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_it_begins_once_a_day_by_night() -> None:
    hours = range(SINCE, SINCE + 366 * 24 * HOUR, HOUR)
    starts = {now: compute_next_start(now) for now in hours}
    assert all(start > now for now, start in starts.items())
    nights = [time.localtime(start) for start in sorted(set(starts.values()))]
    assert all(1 <= night.tm_hour < 4 for night in nights)
    days = [(night.tm_year, night.tm_yday) for night in nights]
    assert len(days) == len(set(days)) >= 366


@pytest.mark.usefixtures("zone")
def test_a_start_is_not_due_again_at_its_own_instant() -> None:
    start = compute_next_start(SINCE)
    assert compute_next_start(start - 1) == start
    assert compute_next_start(start) > start + 20 * HOUR
