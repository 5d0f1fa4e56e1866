"""HTTP to slurmrestd: what goes wrong on the way, a sentence each, and an end in time."""

import socket
import time
from pathlib import Path

import pytest

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.restd.http import PathNotServed, RestHttp
from mirage.slurm.clients.restd.token import TokenFile
from tests.support.cluster.restd import FakeRestd
from tests.support.cluster.tokens import build_jwt


def test_the_token_of_the_moment_goes_with_each_request(fake: FakeRestd, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    http = RestHttp(fake.url, identity=TokenFile(path).load_token)
    fake.answers("/a", {"errors": []})
    texts = [build_jwt("mirage", time.time() + left) for left in (1800, 1860)]
    for text in texts:
        path.write_text(text)
        http.get("/a", "a")
    headers = [asked.headers for asked in fake.calls("/a")]
    assert [h["x-slurm-user-token"] for h in headers] == texts
    assert {h["x-slurm-user-name"] for h in headers} == {"mirage"}


def test_where_the_socket_says_who_asks_nothing_is_told(fake: FakeRestd) -> None:
    fake.answers("/a", {})
    RestHttp(fake.url).get("/a", "a")
    assert not [name for name in fake.requests[0].headers if name.startswith("x-slurm")]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (301, "set cluster.rest_url"),
        (401, "does not know the caller"),
        (511, "renew the token"),
        (403, "is not allowed"),
        (404, "does not serve this path"),
        (429, "fewer requests"),
        (502, "does not answer the proxy before it"),
        (503, "no requests at present"),
    ],
)
def test_a_status_is_told_in_one_sentence(fake: FakeRestd, status: int, sentence: str) -> None:
    fake.answers("/a", "Authentication failure", status=status, headers={"Location": "/b"})
    with pytest.raises(ClusterUnavailable, match=sentence) as told:
        RestHttp(fake.url).get("/a", "a")
    assert "\n" not in str(told.value)
    assert isinstance(told.value, PathNotServed) == (status == 404)
    assert fake.calls("/b") == []


@pytest.mark.parametrize("status", [403, 404, 429, 502, 503, 504])
def test_slurms_own_no_is_an_answer_whatever_its_status(fake: FakeRestd, status: int) -> None:
    own = {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]}
    fake.answers("/a", own, status=status)
    assert RestHttp(fake.url).get("/a", "a").body == own
    fake.answers("/a", {"errors": [{"error_number": 9008, "error": "no such path"}]}, status=status)
    with pytest.raises(ClusterUnavailable):
        RestHttp(fake.url).get("/a", "a")


@pytest.mark.parametrize("body", ["", "<html>oops</html>", '{"jobs": [', "[" * 100_000])
def test_what_is_no_json_is_no_answer(fake: FakeRestd, body: str) -> None:
    fake.answers("/a", body)
    with pytest.raises(ClusterUnavailable, match="without JSON"):
        RestHttp(fake.url).get("/a", "a")


def test_half_an_answer_is_none(fake: FakeRestd) -> None:
    fake.answers("/a", {"jobs": [1, 2, 3]}, cut=4)
    with pytest.raises(ClusterUnavailable, match="broke its answer off"):
        RestHttp(fake.url).get("/a", "a")


def test_a_question_whose_connection_is_dropped_is_asked_once_more(fake: FakeRestd) -> None:
    fake.answers("/a", {"jobs": []})
    fake.drops("/a", times=1)
    assert RestHttp(fake.url).get("/a", "a").body == {"jobs": []}
    fake.drops("/a", times=2)
    with pytest.raises(ClusterUnavailable, match="broke its answer off"):
        RestHttp(fake.url).get("/a", "a")
    assert len(fake.calls("/a")) == 4


def test_a_move_whose_connection_is_dropped_is_not_made_twice(fake: FakeRestd) -> None:
    fake.answers("/a", {})
    fake.drops("/a", times=2)
    http = RestHttp(fake.url)
    with pytest.raises(ClusterUnavailable, match="broke its answer off"):
        http.post("/a", "a", {"hold": True})
    with pytest.raises(ClusterUnavailable, match="broke its answer off"):
        http.delete("/a", "a")
    assert [asked.method for asked in fake.calls("/a")] == ["POST", "DELETE"]


def test_silence_ends_in_time(fake: FakeRestd) -> None:
    fake.answers("/a", {}, seconds=200)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match=r"did not answer within 0\.2 s"):
        RestHttp(fake.url, timeout_s=0.2).get("/a", "a")
    assert time.monotonic() - began < 60


def test_a_byte_now_and_then_ends_in_time(fake: FakeRestd) -> None:
    fake.answers("/a", "x" * 4000, drip_s=0.05)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match="did not answer within"):
        RestHttp(fake.url, timeout_s=0.3).get("/a", "a")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_nobody_who_listens_is_said(tmp_path: Path, over: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        urls = {
            "unix": f"unix:{tmp_path / 'none'}",
            "tcp": f"http://127.0.0.1:{taken.getsockname()[1]}",
        }
        with pytest.raises(ClusterUnavailable, match="does not listen at"):
            RestHttp(urls[over], timeout_s=2).get("/a", "a")


def test_requests_and_failures_are_counted_by_kind(fake: FakeRestd) -> None:
    http = RestHttp(fake.url)
    fake.answers("/a", {})
    http.get("/a", "jobs")
    with pytest.raises(PathNotServed):
        http.get("/b", "jobs")
    cost = http.get_usage()["rest:jobs"]
    assert (cost.calls, cost.failures) == (2, 1)
    assert cost.seconds > 0
