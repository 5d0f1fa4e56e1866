"""The list of numbers, its scales and its fingerprint."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.observation import spec
from mirage.observation.compute import scale_numbers
from mirage.observation.spec import Scaling
from tests.support.observation.groups import get_group_slice
from tests.support.paths import DOCS


def test_every_number_has_one_name_one_scale_and_one_place() -> None:
    names = list(spec.FEATURE_NAMES)
    assert len(set(names)) == len(names) == len(spec.SCALES)
    assert [names[spec.PLACES[name]] for name in names] == names


def test_the_papers_numbers_come_first_in_the_papers_order() -> None:
    paper = spec.FEATURE_NAMES[get_group_slice("paper")]
    assert get_group_slice("paper") == slice(0, 42)
    assert (paper[0], paper[1], paper[17], paper[18]) == (
        "pending_jobs",
        "pending_nodes",
        "running_jobs",
        "running_nodes",
    )
    assert paper[34:38] == (
        "predecessor_limit",
        "predecessor_nodes",
        "predecessor_wait",
        "predecessor_elapsed",
    )


def test_the_groups_follow_each_other_without_gap() -> None:
    parts = [get_group_slice(group) for group in spec.GROUPS]
    assert [p.stop for p in parts[:-1]] == [p.start for p in parts[1:]]
    assert parts[-1].stop == len(spec.FEATURE_NAMES)


_TWO = {"a": (("x", Scaling.LOG), ("y", Scaling.LOG))}


@pytest.mark.parametrize(
    ("groups", "computation"),
    [
        ({"a": (("y", Scaling.LOG), ("x", Scaling.LOG))}, 1),
        ({"a": (("x", Scaling.LOG), ("z", Scaling.LOG))}, 1),
        ({"a": (("x", Scaling.LOG), ("y", Scaling.PLAIN))}, 1),
        ({"b": (("x", Scaling.LOG), ("y", Scaling.LOG))}, 1),
        ({"a": (("x", Scaling.LOG),), "b": (("y", Scaling.LOG),)}, 1),
        (_TWO, 2),
    ],
)
def test_the_fingerprint_is_another_one_after_any_change(
    groups: dict[str, tuple[tuple[str, Scaling], ...]], computation: int
) -> None:
    assert spec.compute_fingerprint(groups, computation) != spec.compute_fingerprint(_TWO, 1)


def test_the_fingerprint_is_the_one_that_models_were_trained_under() -> None:
    """Names, order, scales or the computation have changed: so must every trained model."""
    assert spec.FINGERPRINT == "50625f786e9b8c5f36edd5f569517b898a5512f2646fb6df0de8d266089c6b30"


@given(
    st.lists(st.floats(0, 1e9), min_size=len(spec.FEATURE_NAMES), max_size=len(spec.FEATURE_NAMES))
)
def test_scaling_can_be_undone(numbers: list[float]) -> None:
    raw = np.array(numbers)
    raw[spec.SCALES == Scaling.SIGNED_LOG_HOURS] *= -1.0
    assert np.allclose(
        spec.invert_scaling(scale_numbers(raw, spec.SCALES)), raw, rtol=1e-4, atol=1e-2
    )


def test_the_documentation_names_every_number() -> None:
    page = (DOCS / "reference" / "features.md").read_text(encoding="utf-8")
    assert [name for name in spec.FEATURE_NAMES if f"`{name}`" not in page] == []
