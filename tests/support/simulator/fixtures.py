"""The fixture by which a rule is tested on both simulators: the shipped one and the reference."""

import pytest

from tests.support.simulator.scenes import Side


@pytest.fixture(params=list(Side), ids=str)
def side(request: pytest.FixtureRequest) -> Side:
    parameter: Side = request.param
    return parameter
