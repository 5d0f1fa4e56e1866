"""What slurmrestd says of a move beside its HTTP status, in words that were not captured."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.cluster.rest.client import Slurmrestd
from mirage.cluster.rest.http import RestHttp
from mirage.cluster.rest.token import parse_token
from mirage.domain.job import JobId
from mirage.domain.submission import Submission
from mirage.errors import ClusterRefused, InputError
from tests.support.cluster.restd import OPENAPI, FakeRestd, openapi, serving_restd
from tests.support.cluster.tokens import jwt
from tests.support.patient import PATIENCE_S

AT = "/slurm/v0.0.44/job"
OWNER = 1000
WORK = Submission(
    script="#!/bin/sh\n",
    environment={},
    directory="/home/alice",
    name="a job",
    comment="mirage:x:2",
)
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
    def token_of(user: str) -> Any:
        return parse_token(jwt(user, time.time() + 1800))

    return Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S), user_token=token_of)


def submitted(fake: FakeRestd, answer: Any) -> JobId:
    fake.answers(f"{AT}/submit", answer, method="POST")
    return cluster(fake).submit_job(WORK, user="alice")


def cancelled(fake: FakeRestd) -> list[str]:
    return [one.path for one in fake.asked if one.method == "DELETE"]


@pytest.mark.parametrize(
    "words",
    [
        'Ignoring unknown field "exclusive" of type list',
        "Unrecognized field exclusive",
        "The field exclusive is not supported by this version",
        "Unsupported field exclusive",
        "Skipping field exclusive",
        "Field exclusive was dropped",
        "Rejecting exclusive: invalid value",
        "Unexpected type of exclusive",
        "exclusive was not applied",
        "Deprecated field exclusive is ignored",
    ],
)
def test_whatever_the_words_half_a_job_is_taken_back(restd: FakeRestd, words: str) -> None:
    with pytest.raises(InputError, match="did not take all of the job"):
        submitted(restd, {"job_id": 7, "errors": [], "warnings": [{"description": words}]})
    assert cancelled(restd) == [f"{AT}/7"]


@pytest.mark.parametrize(
    "words", ["Field exclusive is deprecated", "Requested nodes are busy", "Job is held", ""]
)
def test_other_warnings_leave_the_job(restd: FakeRestd, words: str) -> None:
    answer = {"job_id": 7, "errors": [], "warnings": [{"description": words}]}
    assert submitted(restd, answer) == 7
    assert cancelled(restd) == []


def test_a_job_with_an_error_beside_it_does_not_stay(restd: FakeRestd) -> None:
    wrong = [{"error_number": 2015, "error": "Requested node configuration is not available"}]
    with pytest.raises(InputError, match=r"not available .*job 7 was cancelled"):
        submitted(restd, {"job_id": 7, "errors": wrong})
    assert cancelled(restd) == [f"{AT}/7"]


def test_an_error_without_a_word_is_said_so(restd: FakeRestd) -> None:
    with pytest.raises(ClusterRefused, match="no word of why"):
        submitted(restd, {"errors": [{}]})


def test_after_an_upgrade_a_job_is_submitted_in_the_new_version(restd: FakeRestd) -> None:
    found = cluster(restd)
    assert found.get_dialect().version == "v0.0.44"
    restd.answers(OPENAPI, openapi("v0.0.45"))
    restd.answers("/slurm/v0.0.45/job/submit", {"job_id": 9}, method="POST")
    assert found.submit_job(WORK, user="alice") == 9


@pytest.mark.parametrize("flag", ["COMPLETING", "STAGE_OUT"])
def test_a_cancelled_job_that_is_on_its_way_out_is_cancelled(restd: FakeRestd, flag: str) -> None:
    shown = {"job_id": 7, "user_id": OWNER, "submit_time": 1, "job_state": ["CANCELLED", flag]}
    restd.answers(f"{AT}/7", {"jobs": [shown]}, method="GET")
    cluster(restd).cancel_job(JobId(7), owner=OWNER)
    assert cancelled(restd) == [f"{AT}/7"]
