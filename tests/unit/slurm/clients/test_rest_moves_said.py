"""What slurmrestd says of a move beside its HTTP status, in words that were not captured."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirage.domain.job import JobId
from mirage.errors import ClusterRefused
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from tests.support.cluster.restd import OPENAPI, FakeRestd, openapi, serving_restd
from tests.support.patient import PATIENCE_S

AT = "/slurm/v0.0.44/job"
OWNER = 1000
UNKNOWN = {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}


@pytest.fixture
def restd(tmp_path: Path) -> Iterator[FakeRestd]:
    fake = FakeRestd(tmp_path)
    fake.answers(OPENAPI, openapi("v0.0.44"))
    fake.answers(f"{AT}/7", {"errors": []}, method="DELETE")
    fake.answers(f"{AT}/7", UNKNOWN, method="GET")
    with serving_restd(fake):
        yield fake


def cluster(fake: FakeRestd) -> Slurmrestd:
    return Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S))


def cancelled(fake: FakeRestd) -> list[str]:
    return [one.path for one in fake.requests if one.method == "DELETE"]


def test_an_error_without_a_word_is_said_so(restd: FakeRestd) -> None:
    shown = {"job_id": 7, "user_id": OWNER, "submit_time": 1, "job_state": ["PENDING"]}
    restd.answers(f"{AT}/7", {"jobs": [shown]}, method="GET")
    restd.answers(f"{AT}/7", {"errors": [{}]}, method="DELETE")
    with pytest.raises(ClusterRefused, match="no word of why"):
        cluster(restd).cancel_job(JobId(7), owner=OWNER)


@pytest.mark.parametrize("flag", ["COMPLETING", "STAGE_OUT"])
def test_a_cancelled_job_that_is_on_its_way_out_is_cancelled(restd: FakeRestd, flag: str) -> None:
    shown = {"job_id": 7, "user_id": OWNER, "submit_time": 1, "job_state": ["CANCELLED", flag]}
    restd.answers(f"{AT}/7", {"jobs": [shown]}, method="GET")
    cluster(restd).cancel_job(JobId(7), owner=OWNER)
    assert cancelled(restd) == [f"{AT}/7"]
