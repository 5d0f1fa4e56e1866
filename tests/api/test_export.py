"""Lists as files: the same rows as the pages, a part at a time, and no formulas."""

import csv
import io
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from mirage.api import export
from mirage.api.context import ApiContext
from mirage.domain.caller import JOBS, USAGE
from mirage.store import jobs
from mirage.store.engine import Store
from tests.api.rows import add_chain, add_decision, add_links, job
from tests.api.running import CHAIN, NOW, Client, Stage

API = "/api/v1"
NAMES = ["chains", "decisions", f"chains/{CHAIN}/decisions", "handovers", "jobs"]


@pytest.fixture
def filled(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_chain(tx, cluster_id, "bobschain001", "bob", created_at=NOW)
        for hour in range(5):
            add_decision(tx, cluster_id, at=NOW + 7200 * hour)
        some = [job(n, name=f"=cmd|{n}" if n % 2 else "plain") for n in range(1, 8)]
        jobs.upsert(tx, cluster_id, [*some, job(9, user="bob", uid=1002)])


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
    monkeypatch.setattr(export, "PART", 2)
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
        some = [job(n, name=name, account='say "a,b"') for n, name in enumerate(names, 1)]
        jobs.upsert(tx, cluster_id, [*some, job(len(names) + 1, name="a;b|c -d=e")])
    text = client.get(f"{API}/jobs", format="csv").text
    rows = {int(row["job_id"]): row for row in read_csv(text)}
    assert [rows[n]["name"].replace("'", "") for n in range(1, len(names) + 1)] == names
    assert rows[1]["account"] == 'say "a,b"'
    assert rows[len(names) + 1]["name"] == "a;b|c -d=e"
    assert _formulas(text) == []


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


def test_no_more_files_at_once_than_there_is_room_for(client: Client, stage: Stage) -> None:
    gate = stage.app.state.gate
    taken = [gate.acquire(blocking=False) for _ in range(export.AT_ONCE)]
    assert all(taken)
    answer = client.get(f"{API}/jobs", format="csv")
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/too-many")
    gate.release(export.AT_ONCE)
    assert client.get(f"{API}/jobs", format="csv").status_code == 200


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_rows(
    client: Client,
    store: Store,
    cluster_id: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight times the rows take little more: what is held is a part, not the file."""
    monkeypatch.setattr(export, "PART", 500)
    peaks = []
    for rows in (1_000, 8_000):
        with store.begin() as tx:
            jobs.upsert(tx, cluster_id, [job(n, name="x" * 100) for n in range(1, rows + 1)])
        peaks.append(_peak(client, kind, rows))
    assert peaks[1] < 2.5 * peaks[0]


def _peak(client: Client, kind: str, rows: int) -> int:
    received = 0
    tracemalloc.start()
    with httpx.stream("GET", f"{client.url}{API}/jobs?format={kind}", trust_env=False) as answer:
        for chunk in answer.iter_raw():
            received += len(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert received > rows
    return peak
