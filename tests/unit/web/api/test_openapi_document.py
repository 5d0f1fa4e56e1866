"""The document that is committed is the app's, and what would break its clients is named."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import openapi_document, openapi_said
from tests.support.api.openapi_breaking import list_breaks
from tests.support.api.openapi_document import COMMITTED, build_document, render_document

Document = dict[str, Any]


@pytest.fixture(scope="module")
def old() -> Document:
    return build_document()


def test_the_committed_document_is_the_apps(old: Document) -> None:
    said = "run `python -m tests.support.api.openapi_document` and commit docs/openapi.json"
    assert COMMITTED.read_text() == render_document(old), said


def chains(document: Document) -> Document:
    found: Document = document["paths"]["/api/v1/chains"]
    return found


def schema(document: Document, name: str) -> Document:
    found: Document = document["components"]["schemas"][name]
    return found


def parameter(document: Document, name: str) -> Document:
    found = [p for p in chains(document)["get"]["parameters"] if p["name"] == name]
    schema: Document = found[0]["schema"]
    return schema


def changed(change: Callable[[Document], object]) -> Callable[[Document], Document]:
    def new(old: Document) -> Document:
        document = copy.deepcopy(old)
        change(document)
        return document

    return new


BREAKS: list[tuple[Callable[[Document], object], str]] = [
    (lambda d: d["paths"].pop("/api/v1/jobs"), "GET /api/v1/jobs is gone"),
    (lambda d: chains(d).pop("post"), "POST /api/v1/chains is gone"),
    (lambda d: chains(d)["get"].update(operationId="chains"), "listChains is now chains"),
    (lambda d: chains(d)["get"]["parameters"].pop(), "parameter If-None-Match is gone"),
    (lambda d: parameter(d, "limit").update(maximum=100), "limit: maximum is now 100"),
    (lambda d: parameter(d, "limit").update(minimum=2), "limit: minimum is now 2"),
    (lambda d: parameter(d, "limit").update(type="string"), "limit is no longer integer"),
    (
        lambda d: chains(d)["get"]["parameters"].append(
            {"in": "query", "name": "cluster", "required": True, "schema": {"type": "string"}}
        ),
        "parameter cluster is now required",
    ),
    (lambda d: schema(d, "ChainState")["enum"].remove("paused"), "does not take paused any more"),
    (lambda d: schema(d, "NewChain")["required"].append("policy"), "body.policy is now required"),
    (lambda d: schema(d, "NewChain")["properties"].pop("style"), "body.style is gone"),
    (
        lambda d: schema(d, "NewChain")["properties"]["links"].update(maximum=3),
        "body.links: maximum is now 3",
    ),
    (lambda d: chains(d)["post"]["responses"].pop("201"), "201 is gone"),
    (
        lambda d: chains(d)["get"]["responses"]["200"]["content"].pop("text/csv"),
        "not given as text/csv any more",
    ),
    (lambda d: schema(d, "ChainSummary")["properties"].pop("note"), "items[].note is gone"),
    (lambda d: schema(d, "JobView")["required"].remove("wait_s"), "wait_s may now be missing"),
    (
        lambda d: schema(d, "JobView")["properties"]["nodes"].update(type="string"),
        "items[].nodes may now be string",
    ),
    (
        lambda d: schema(d, "JobView")["properties"]["user"].update(
            anyOf=[{"type": "string"}, {"type": "null"}]
        ),
        "items[].user may now be null",
    ),
]


@pytest.mark.parametrize(("change", "said"), BREAKS, ids=[said for _, said in BREAKS])
def test_what_breaks_a_client_is_named(
    old: Document, change: Callable[[Document], object], said: str
) -> None:
    found = list_breaks(old, changed(change)(old))
    assert found
    assert any(said in sentence for sentence in found), found


GROWS: list[Callable[[Document], object]] = [
    lambda d: d["paths"].update({"/api/v1/new": {"get": {"operationId": "new", "responses": {}}}}),
    lambda d: parameter(d, "limit").update(maximum=1000),
    lambda d: schema(d, "JobView")["properties"].update(more={"type": "string"}),
    lambda d: schema(d, "NewChain")["properties"].update(more={"type": "string"}),
    lambda d: schema(d, "JobView")["required"].append("more"),
    lambda d: chains(d)["get"].update(description="Other words."),
    lambda d: schema(d, "NewChain").update(properties={}, required=[], additionalProperties=True),
]


@pytest.mark.parametrize("change", GROWS, ids=range(len(GROWS)))
def test_what_only_grows_breaks_nobody(old: Document, change: Callable[[Document], object]) -> None:
    new = changed(change)(old)
    assert new != old
    assert list_breaks(old, new) == []


def test_a_breaking_change_is_not_written_by_the_way(
    old: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    more = copy.deepcopy(old)
    more["paths"]["/api/v1/past"] = {"get": {"operationId": "past", "responses": {}}}
    path, changelog = tmp_path / openapi_said.DOCUMENT, tmp_path / openapi_said.CHANGELOG
    path.parent.mkdir()
    path.write_text(json.dumps(more))
    changelog.write_text("## Unreleased\n")
    monkeypatch.setattr("sys.argv", ["openapi_document"])
    assert openapi_document.main(tmp_path) == 1
    assert capsys.readouterr().err == "breaking: GET /api/v1/past is gone\n"
    assert "/api/v1/past" in path.read_text()
    assert changelog.read_text() == "## Unreleased\n"
    monkeypatch.setattr("sys.argv", ["openapi_document", "--break"])
    assert openapi_document.main(tmp_path) == 0
    assert path.read_text() == render_document(old)
    assert "- REST, breaking: GET /api/v1/past is gone\n" in changelog.read_text()
