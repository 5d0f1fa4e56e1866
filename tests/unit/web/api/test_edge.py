"""What holds of every address: HEAD, and where redirects and problems lead below a proxy's path."""

from dataclasses import replace

import httpx
import pytest

from mirage.database.schema.engine import Store
from mirage.web.api.app import ApiContext
from tests.support.api.rows import look, read_running_job
from tests.support.api.running import Client, Stage
from tests.support.patient import NO_ISSUER, PATIENCE_S

API = "/api/v1"


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/metrics", f"{API}/jobs", f"{API}/jobs?format=csv", f"{API}/events", "/nowhere"],
)
def test_a_head_is_that_of_the_answer(
    client: Client, store: Store, cluster_id: int, path: str
) -> None:
    """Also where the answer itself is without end, or a file."""
    look(store, cluster_id, *(read_running_job(n) for n in range(100, 110)))
    until = "?for_s=0" if path.endswith("events") else ""
    whole = client.raw("GET", path + until)
    head = client.raw("HEAD", path, timeout=PATIENCE_S)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    kept = ("content-type", "content-disposition", "etag", "cache-control")
    assert [head.headers.get(name) for name in kept] == [whole.headers.get(name) for name in kept]


def test_nothing_that_changes_answers_a_head(client: Client) -> None:
    answer = client.raw("HEAD", f"{API}/kill/release")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_what_answers_a_head_lets_the_next_request_in(client: Client) -> None:
    """On the same connection: nothing of the body is left on it."""
    with httpx.Client(
        base_url=client.url, trust_env=False, verify=NO_ISSUER, timeout=PATIENCE_S
    ) as http:
        for path in (f"{API}/events", f"{API}/jobs?format=parquet", f"{API}/jobs"):
            assert http.head(path).status_code == 200
            assert http.get("/healthz", timeout=PATIENCE_S).json() == {"status": "ok"}


def test_redirects_and_problems_lead_below_the_path_of_a_proxy(
    stage: Stage, context: ApiContext
) -> None:
    with stage.serving(replace(context, root_path="/mirage")) as client:
        moved = client.raw("GET", f"/mirage{API}/jobs/?limit=1", headers={"Host": "localhost"})
        assert (moved.status_code, moved.headers["location"]) == (307, f"/mirage{API}/jobs?limit=1")
        problem = client.raw("GET", f"/mirage{API}/nowhere").json()
        assert problem["type"] == "/mirage/problems/not-found"
        assert client.raw("GET", problem["type"]).status_code == 200
