"""At how many hand-overs a model was asked."""

import pytest

from mirage.lab.learning.forecast_losses import ModelUse


def test_one_that_was_always_asked_needs_no_words() -> None:
    use = ModelUse.from_obstacles([None] * 9)
    assert (use.explain(), use.decides_nothing) == ("", False)


@pytest.mark.parametrize(("asked", "decides_nothing"), [(0, True), (1, True), (2, False)])
def test_one_that_is_asked_at_less_than_a_tenth_decides_nothing(
    asked: int, decides_nothing: bool
) -> None:
    others = ["there is no observation", *["the load is strange"] * (19 - asked)]
    use = ModelUse.from_obstacles([*[None] * asked, *others])
    assert use.decides_nothing is decides_nothing
    assert use.explain().startswith(f"it was asked at {asked} of 20 hand-overs")
    assert use.explain().endswith("mostly since the load is strange")
