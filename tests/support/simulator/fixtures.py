"""Every rule is shown on both simulators: the shipped one and the brute force."""

import pytest

from tests.support.simulator.scenes import Side


@pytest.fixture(params=list(Side), ids=str)
def side(request: pytest.FixtureRequest) -> Side:
    chosen: Side = request.param
    return chosen
