"""Tables judged as one set: which hand-overs are the same, which clusters differ."""

from typing import Any

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.judging.table_set import check_distinct, count_clusters
from tests.support.episodes.tables import build_metadata

POINTS = np.array([1000, 2000])
SITE: dict[str, Any] = {"name": "made", "partitions": [{"name": "batch"}, {"name": "gpu"}]}


@pytest.mark.parametrize("same", [{}, {"step_s": 60}, {"partition": "batch"}, {"left_out": 3}])
def test_the_same_hand_over_is_found(same: dict[str, Any]) -> None:
    two = [build_metadata(cluster=SITE), build_metadata(cluster=SITE, **same)]
    with pytest.raises(InputError, match="1 hand-overs are in more than one table"):
        check_distinct(two, [POINTS, POINTS[1:]])


@pytest.mark.parametrize(
    "other",
    [
        {"nodes": 2},
        {"time_limit_s": 60},
        {"partition": "gpu"},
        {"user": "u1"},
        {"trace_sha256": "1" * 64},
        {"cluster": SITE | {"nodes": 5}},
    ],
)
def test_another_pair_is_another_hand_over(other: dict[str, Any]) -> None:
    two = [build_metadata(cluster=SITE), build_metadata(**{"cluster": SITE} | other)]
    check_distinct(two, [POINTS, POINTS])
    assert count_clusters(two) == (2 if "cluster" in other else 1)


def test_another_start_point_is_another_hand_over() -> None:
    check_distinct([build_metadata(), build_metadata()], [POINTS, POINTS + 1])
