"""The window of models that look back: observations ten minutes apart, the present one last."""

import numpy as np
from numpy.typing import NDArray

from mirage.provision.observation_window import GAP_S, LONGEST, ObservationWindow


def seen(minute: int) -> NDArray[np.float32]:
    return np.array([minute, -minute], dtype=np.float32)


def windows(
    lookback: ObservationWindow, minutes: list[int], handover: int = 1
) -> list[list[float]]:
    """The first number of each row of the window at each of these minutes."""
    found = (lookback.update_window(handover, 60 * m, seen(m)) for m in minutes)
    return [window[:, 0].tolist() for window in found]


def test_rows_are_ten_minutes_apart_and_the_last_is_the_present_one() -> None:
    found = windows(ObservationWindow(), list(range(26)))
    assert found[0] == [0]
    assert found[9] == [9]
    assert found[10] == [0, 10]
    assert found[19] == [0, 19]
    assert found[20] == [0, 10, 20]
    assert found[25] == [0, 10, 25]


def test_it_is_no_longer_than_a_day() -> None:
    minutes = [10 * i for i in range(200)]
    assert windows(ObservationWindow(), minutes)[-1] == minutes[-LONGEST:]


def test_a_gap_ends_it_and_hand_overs_are_apart() -> None:
    lookback = ObservationWindow()
    assert windows(lookback, [0, 10, 20])[-1] == [0, 10, 20]
    assert windows(lookback, [20], handover=2) == [[20]]
    later = 20 + GAP_S // 60 + 1
    assert windows(lookback, [later, later + 10]) == [[later], [later, later + 10]]


def test_nothing_is_kept_of_who_has_handed_over() -> None:
    lookback = ObservationWindow()
    windows(lookback, [0, 10])
    windows(lookback, [10 + GAP_S // 60], handover=2)
    assert len(lookback._kept) == 2
    windows(lookback, [11 + GAP_S // 60], handover=2)
    assert list(lookback._kept) == [2]
