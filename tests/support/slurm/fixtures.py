"""What the tests of readers share: every release's answers."""

import pytest

from tests.support.slurm.captured import ALL, Captures


@pytest.fixture(scope="session", params=ALL, ids=lambda captures: captures.release)
def captures(request: pytest.FixtureRequest) -> Captures:
    parameter: Captures = request.param
    return parameter
