"""Each cell of the matrix on a real Slurm with PrivateData: allowed or refused as expected."""

from collections.abc import Iterator

import pytest

from tests.acceptance.matrix.people import People
from tests.acceptance.matrix.trying import TRIALS, of_way
from tests.support.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def people(slurm_host: Testbed) -> Iterator[People]:
    with People.at(slurm_host) as there:
        yield there


@pytest.mark.parametrize("way", TRIALS)
def test_each_may_do_what_is_theirs_and_nothing_else(people: People, way: str) -> None:
    assert [str(found) for found in of_way(people, way) if found.differs] == []
