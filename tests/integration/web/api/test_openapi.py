"""The document that clients are made from: its names do not change, and it hides no error."""

from typing import Any

import pytest

from tests.support.api.running import Client

OPERATIONS = {
    "GET /api/v1/accuracy": "getAccuracy",
    "GET /api/v1/audit": "listAudit",
    "GET /api/v1/chains": "listChains",
    "POST /api/v1/chains": "registerChain",
    "GET /api/v1/chains/{chain_id}": "getChain",
    "POST /api/v1/chains/{chain_id}/cancel": "cancelChain",
    "GET /api/v1/chains/{chain_id}/decisions": "listChainDecisions",
    "POST /api/v1/chains/{chain_id}/pause": "pauseChain",
    "POST /api/v1/chains/{chain_id}/resume": "resumeChain",
    "GET /api/v1/chains/{chain_id}/next": "getNextLink",
    "GET /api/v1/chains/{chain_id}/timeline": "getChainTimeline",
    "GET /api/v1/cluster": "getCluster",
    "GET /api/v1/decisions": "listDecisions",
    "GET /api/v1/events": "streamEvents",
    "GET /api/v1/forecasts": "getForecast",
    "GET /api/v1/handovers": "listHandovers",
    "GET /api/v1/impact": "getImpact",
    "GET /api/v1/jobs": "listJobs",
    "POST /api/v1/completions": "reportCompletion",
    "POST /api/v1/kill": "stopActing",
    "GET /api/v1/kill": "getKillSwitch",
    "POST /api/v1/kill/release": "releaseKillSwitch",
    "GET /api/v1/learning": "getLearning",
    "PUT /api/v1/learning/challenger": "decideChallenger",
    "PUT /api/v1/learning/champion": "takeBackChampion",
    "GET /api/v1/limits": "getLimits",
    "PUT /api/v1/limits/{name}": "setLimit",
    "GET /api/v1/models": "getModels",
    "GET /api/v1/models/{name}/{version}": "getModel",
    "PUT /api/v1/models/{name}/promoted": "promoteModel",
    "GET /api/v1/polling": "getPolling",
    "GET /api/v1/status": "getStatus",
    "GET /api/v1/mode": "getMode",
    "PUT /api/v1/mode": "setMode",
    "GET /api/v1/queue": "getQueue",
    "GET /api/v1/reports/shadow": "getShadowReport",
    "GET /api/v1/waits": "getWaits",
    "POST /api/v1/forecasts": "askForecast",
    "GET /healthz": "getHealth",
    "GET /metrics": "getMetrics",
    "GET /problems/{name}": "explainProblem",
    "GET /api/v1/overview": "getOverview",
    "GET /readyz": "getReadiness",
}


SHORT = {"listLimits", "listModels"}
"""Lists as long as what the admin has set up: they are whole."""


@pytest.fixture
def document(client: Client) -> dict[str, Any]:
    answer = client.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_operation_ids_are_stable(document: dict[str, Any]) -> None:
    """Generated clients call these: add to them, rename none."""
    found = {where: o["operationId"] for where, o in operations(document).items()}
    assert found == OPERATIONS


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")


def test_every_operation_is_described_and_tagged(document: dict[str, Any]) -> None:
    for operation in operations(document).values():
        assert operation["description"]
        assert operation["tags"]


def test_every_error_is_a_problem(document: dict[str, Any]) -> None:
    for where, operation in operations(document).items():
        errors = {k: v for k, v in operation["responses"].items() if k[0] in "45"}
        if " /api/v1/" in where:
            assert errors.keys() >= {"401", "403", "413", "422", "500", "503"}, where
        if "requestBody" in operation:
            assert errors.keys() >= {"400", "415"}, where
        for error in errors.values():
            assert list(error["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_read_can_be_revalidated(document: dict[str, Any]) -> None:
    for where, operation in operations(document).items():
        json = "application/json" in operation["responses"].get("200", {}).get("content", {})
        if where.startswith("GET /api/v1/") and json:
            assert "304" in operation["responses"], where
            assert "ETag" in operation["responses"]["200"]["headers"], where


def test_every_post_takes_a_key(document: dict[str, Any]) -> None:
    for where, operation in operations(document).items():
        if where.startswith("POST "):
            names = {parameter["name"].lower() for parameter in operation["parameters"]}
            assert "idempotency-key" in names, where


def test_every_list_is_paged(document: dict[str, Any]) -> None:
    for where, operation in operations(document).items():
        if operation["operationId"].startswith("list") and operation["operationId"] not in SHORT:
            names = {parameter["name"] for parameter in operation["parameters"]}
            assert names >= {"cursor", "limit"}, where


def test_every_field_that_travels_has_an_example(document: dict[str, Any]) -> None:
    """Of the schemas that are objects; an enumeration is its own example."""
    bare = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, said in schema.get("properties", {}).items()
        if "examples" not in schema and "examples" not in said and not _speaks_for_itself(said)
    ]
    assert bare == []


def _speaks_for_itself(said: dict[str, Any]) -> bool:
    options = said.get("anyOf", [said])
    item = said.get("items", {})
    return any("$ref" in o or "const" in o for o in (*options, item)) or said.get("type") == "array"


def test_what_is_referred_to_is_there(document: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(_references(document)) <= known


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [ref for item in value for ref in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [ref for item in value.values() for ref in _references(item)]
