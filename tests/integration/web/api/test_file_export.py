"""Lists as files: the same rows as the pages, a part at a time, and no formulas."""

import csv
import io
import json
import socket
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import JOBS, USAGE
from mirage.domain.callers.request_signing import build_signed_text
from mirage.web.api.streaming import file_export, slow_clients
from mirage.web.api.streaming.file_export import list_columns
from mirage.web.identity.quotas import Quotas
from mirage.web.shared.context import ApiContext
from tests.support import patient
from tests.support.api.rows import add_chain, add_decision, add_links, read_running_record
from tests.support.api.running import CHAIN, CLUSTER, NOW, Client, Stage

API = "/api/v1"


class Named(BaseModel):
    name: str


NAMES = ["chains", "decisions", f"chains/{CHAIN}/decisions", "handovers", "jobs"]


@pytest.fixture
def filled(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_chain(tx, cluster_id, "bobschain001", "bob", created_at=NOW)
        for hour in range(5):
            add_decision(tx, cluster_id, at=NOW + 7200 * hour)
        some = [read_running_record(n, name=f"=cmd|{n}" if n % 2 else "plain") for n in range(1, 8)]
        job_history.upsert_jobs(
            tx, cluster_id, [*some, read_running_record(9, user="bob", uid=1002)]
        )


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def flat(item: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """An item of a page as a row."""
    found: dict[str, Any] = {}
    for name, value in item.items():
        if isinstance(value, dict) and name != "inputs":
            found |= flat(value, f"{prefix}{name}_")
        else:
            found[prefix + name] = value
    return found


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_rows_of_the_pages(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_export, "PART", 2)
    items = [flat(item) for item in client.get(f"{API}/{name}").json()["items"]]
    text = client.get(f"{API}/{name}", format="csv")
    rows = read_csv(text.text)
    assert text.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert text.headers["content-disposition"].endswith('.csv"')
    table = pq.read_table(io.BytesIO(client.get(f"{API}/{name}", format="parquet").content))
    assert len(rows) == table.num_rows == len(items) > 1
    for item, row, values in zip(items, rows, table.to_pylist(), strict=True):
        for column, value in item.items():
            if column in {"at_risk", "forecast"}:  # null where there is none
                continue
            assert row[column] == as_text(value)
            kept = as_text(values[column], guard=False, parquet=True)
            assert kept == as_text(value, guard=False)


def as_text(value: Any, *, guard: bool = True, parquet: bool = False) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict() | list():
            return json.dumps(value, sort_keys=True, separators=(",", ":"))
        case str() if guard and value.startswith("="):
            return f"'{value}"
    if parquet and hasattr(value, "strftime"):
        return str(value.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return str(value)


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1+1", '"=1"', ' "" =1']
BEFORE = ["", "a;", "a|", "a\t", "a\n", "a\r\n", "a;b|", 'a";']


def test_no_text_is_a_formula_whatever_the_spreadsheet_takes_for_a_separator(
    client: Client, store: Store, cluster_id: int
) -> None:
    names = [before + formula for before in BEFORE for formula in FORMULAS]
    with store.begin() as tx:
        some = [
            read_running_record(n, name=name, account='say "a,b"')
            for n, name in enumerate(names, 1)
        ]
        job_history.upsert_jobs(
            tx, cluster_id, [*some, read_running_record(len(names) + 1, name="a;b|c -d=e")]
        )
    text = client.get(f"{API}/jobs", format="csv").text
    rows = {int(row["job_id"]): row for row in read_csv(text)}
    assert [rows[n]["name"].replace("'", "") for n in range(1, len(names) + 1)] == names
    assert rows[1]["account"] == 'say "a,b"'
    assert rows[len(names) + 1]["name"] == "a;b|c -d=e"
    assert _formulas(text) == []


def test_a_long_text_of_separators_is_read_once() -> None:
    """In the square of its length this would take an hour."""
    (column,) = list_columns(Named)
    name = ";\n" * 500_000
    rows = [Named(name=name), Named(name=f"{name}=1")]
    told = b"".join(file_export._write_csv([column], iter([rows]))).decode()
    assert told == f'name\r\n"{name}"\r\n"{name}\'=1"\r\n'


def test_no_text_within_json_is_a_formula(client: Client, store: Store, cluster_id: int) -> None:
    said = {"why": "a;=1|=1\t=1\n=1", "n": -1}
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_decision(tx, cluster_id, at=NOW, inputs=said)
    text = client.get(f"{API}/decisions", format="csv").text
    (row,) = read_csv(text)
    assert json.loads(row["inputs"]) == said
    assert _formulas(text) == []


def _formulas(text: str) -> list[str]:
    """What a spreadsheet with one of these separators would compute."""
    read = (csv.reader(io.StringIO(text, newline=""), delimiter=one) for one in ",;|\t")
    cells = [cell for rows in read for row in rows for cell in row]
    return [cell for cell in cells if cell.strip(' \t\r\n"').startswith(_BEGIN)]


_BEGIN = ("=", "+", "-", "@", "\uff1d")


@pytest.mark.usefixtures("filled")
def test_a_file_is_asked_for_by_header_too(client: Client) -> None:
    def kind(accept: str, **query: str) -> str:
        answer = client.raw("GET", f"{API}/jobs", headers={"Accept": accept}, params=query)
        return answer.headers["content-type"].partition(";")[0]

    assert kind("text/csv") == "text/csv"
    assert kind("application/vnd.apache.parquet;q=0.9") == "application/vnd.apache.parquet"
    assert kind("text/html,*/*") == "application/json"
    assert kind("application/json, text/csv;q=0.1") == "application/json"
    assert kind("text/csv, application/json;q=0.5") == "text/csv"
    assert kind("text/csv;q=0") == "application/json"
    assert kind("text/csv", format="json") == "application/json"
    assert client.get(f"{API}/jobs", format="xlsx").status_code == 422


@pytest.mark.usefixtures("filled")
def test_a_file_is_narrowed_and_hidden_as_the_pages_are(stage: Stage, context: ApiContext) -> None:
    with stage.serving(context) as client:
        assert len(read_csv(client.get(f"{API}/jobs", format="csv", user="bob").text)) == 1
    private = replace(context, hidden=lambda: frozenset({JOBS, USAGE}))
    with stage.serving(private) as client:
        for name, theirs in (("jobs", 1), ("chains", 1), ("decisions", 0), ("handovers", 0)):
            answer = client.get(f"{API}/{name}", who="bob", format="csv")
            assert len(read_csv(answer.text)) == theirs, name
            assert client.get(f"{API}/{name}", format="csv").status_code == 401
        hidden = client.get(f"{API}/chains/{CHAIN}/decisions", who="bob", format="csv")
        assert hidden.status_code == 404


def asks(client: Client, who: str | None) -> socket.socket:
    """For all jobs, and has read nothing of them: a user's own socket, whose buffers are small."""
    target = f"{API}/jobs?format=csv"
    head = [f"GET {target} HTTP/1.1", "Host: localhost"]
    if who is not None:
        head.append(f"Authorization: MUNGE {who}:{build_signed_text('GET', target, b'', CLUSTER)}")
    asking = socket.socket()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking.settimeout(patient.PATIENCE_S)
    asking.connect(("127.0.0.1", httpx.URL(client.url).port or 0))
    asking.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
    return asking


def rest(asking: socket.socket) -> bytes:
    """All that comes until the end, or until the connection is cut."""
    found = b""
    try:
        while part := asking.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def until(done: Callable[[], bool]) -> None:
    """However long it takes; what never comes ends with the test's own time."""
    while not done():
        time.sleep(0.05)


@pytest.fixture
def large(store: Store, cluster_id: int) -> None:
    """A file that no buffer between the two takes whole: some 24 MB."""
    with store.begin() as tx:
        job_history.upsert_jobs(
            tx, cluster_id, [read_running_record(n, name="x" * 4000) for n in range(1, 6001)]
        )


@pytest.mark.usefixtures("large")
def test_nobody_has_all_the_files(client: Client, stage: Stage) -> None:
    """Two of alice's and two of nobody's are under way, and none of them is read."""
    slots = stage.app.state.quota.exports
    with ExitStack() as held:

        def answers(who: str | None) -> bool:
            """Whether another file of theirs is begun."""
            free = slots.free
            asking = held.enter_context(asks(client, who))
            begins = asking.recv(12)
            if begins == b"HTTP/1.1 200":
                assert slots.free == free - 1
            return begins == b"HTTP/1.1 200"

        assert [answers("alice") for _ in range(3)] == [True, True, False]
        told = client.get(f"{API}/jobs", who="alice", format="csv")
        assert (told.status_code, told.json()["type"]) == (429, "/problems/too-many")
        assert "retry-after" in told.headers
        assert client.get(f"{API}/jobs", who="alice").status_code == 200, "pages go on"
        assert [answers(None) for _ in range(3)] == [True, True, False]
        assert not answers("bob"), "all are taken"
    until(lambda: bool(slots.free == 4))
    assert client.get(f"{API}/decisions", who="bob", format="csv").status_code == 200


@pytest.mark.usefixtures("large")
def test_all_unknown_together_leave_half_of_the_files(client: Client) -> None:
    with ExitStack() as held:
        begun = [held.enter_context(asks(client, None)).recv(12) for _ in range(3)]
        assert begun == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 429"]
        assert held.enter_context(asks(client, "bob")).recv(12) == b"HTTP/1.1 200"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("way", ["too slow", "too long"])
def test_who_does_not_read_is_cut_off_and_leaves_a_slot(
    stage: Stage, context: ApiContext, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(slow_clients, "WINDOW_S", 0.5 if way == "too slow" else 3600.0)
    quotas = Quotas(export_s=3600 if way == "too slow" else 1)
    with stage.serving(replace(context, quotas=quotas)) as client, capture_logs() as lines:
        slots = stage.app.state.quota.exports
        with asks(client, "alice") as asking:
            assert asking.recv(12) == b"HTTP/1.1 200"
            until(lambda: bool(slots.free == 4))
            assert not rest(asking).endswith(b"0\r\n\r\n"), "it can be told from a whole one"
    (line,) = [line for line in lines if line["event"].startswith("an answer was not sent")]
    assert ("slow" in line["why"]) == (way == "too slow")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_rows(
    client: Client,
    store: Store,
    cluster_id: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight times the rows take little more: what is held is a part, not the file."""
    monkeypatch.setattr(file_export, "PART", 500)
    peaks = []
    for rows in (1_000, 8_000):
        with store.begin() as tx:
            job_history.upsert_jobs(
                tx, cluster_id, [read_running_record(n, name="x" * 100) for n in range(1, rows + 1)]
            )
        peaks.append(_peak(client, kind, rows))
    assert peaks[1] < 2.5 * peaks[0]


def _peak(client: Client, kind: str, rows: int) -> int:
    received = 0
    tracemalloc.start()
    with httpx.stream(
        "GET", f"{client.url}{API}/jobs?format={kind}", trust_env=False, timeout=patient.PATIENCE_S
    ) as answer:
        for chunk in answer.iter_raw():
            received += len(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert received > rows
    return peak
