"""Every error that the document names can be had, and is a problem: none is named for nothing."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from mirage.database.jobs import job_history
from mirage.database.operations import reports
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller
from mirage.domain.chain import ChainMode
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.web.api.streaming import change_feed
from mirage.web.identity.quotas import Quotas
from mirage.web.shared import quota
from mirage.web.shared.context import ApiContext
from mirage.web.shared.problems import KINDS
from tests.support.api.openapi_document import build_document
from tests.support.api.rows import add_chain, add_links, look, read_running_job, read_running_record
from tests.support.api.running import CHAIN, NOW, USERS, Client, Stage
from tests.support.paths import MODELS
from tests.support.web.seeded_past import report
from tests.unit.web.api.test_idempotency import NEW

DOCUMENT = build_document()
VERSION = (MODELS / "ensemble-ls6" / "promoted").read_text().strip()
JSON = {"Content-Type": "application/json"}
BODIES = {
    "setLimit": b'{"value": 3}',
    "promoteModel": f'{{"version": "{VERSION}"}}'.encode(),
    "decideChallenger": b'{"model": "models/site-lab/1", "state": "promoted"}',
    "takeBackChampion": b'{"model": "models/site-lab/1", "state": "rolled-back"}',
    "releaseKillSwitch": b"{}",
    "askForecast": b'{"partition": "gpu", "nodes": 1, "time_limit_s": 60}',
    "registerChain": NEW,
    "setMode": b'{"mode": "observe"}',
    "reportCompletion": b'{"job_id": 103}',
}
QUERIES = {"getForecast": "partition=gpu&nodes=1&time_limit_s=60", "streamEvents": "for_s=0"}


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    document_path: str = ""
    """Its path in the document, where `path` has another."""

    def takes(self, parameter: str) -> bool:
        operation = DOCUMENT["paths"][self.document_path or self.path][self.method.lower()]
        return any(one["name"] == parameter for one in operation.get("parameters", ()))

    def address(self, query: str = "") -> str:
        path = self.path.replace("{chain_id}", CHAIN)
        if "/models/" in path:
            path = path.replace("{name}", "ensemble-ls6").replace("{version}", VERSION)
        path = path.replace("{name}", "max_touches" if "/limits/" in path else "not-found")
        usual = parse_qsl(QUERIES.get(self.name, ""))
        return f"{path}?" + urlencode(dict(usual) | dict(parse_qsl(query)))

    def ask(
        self, client: Client, query: str = "", *, body: bytes | None = None, **headers: str
    ) -> httpx.Response:
        sent = body if body is not None else BODIES.get(self.name, b"")
        told = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
        return client.raw(self.method, self.address(query), content=sent, headers=told)


OPERATIONS = [
    (Operation(operation["operationId"], method.upper(), path), operation["responses"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
ERRORS = [
    (operation, int(status))
    for operation, answers in OPERATIONS
    for status in answers
    if status[0] in "345"
]


@dataclass
class Scene:
    """A service on which something is about to go wrong."""

    stage: Stage
    context: ApiContext
    patch: pytest.MonkeyPatch

    def serving(self, **changes: Any) -> AbstractContextManager[Client]:
        return self.stage.serving(replace(self.context, **changes))

    def failing(self, error: Exception) -> AbstractContextManager[Client]:
        """With who says who asks out of order."""

        def fail(*_: object) -> NoReturn:
            raise error

        return self.serving(identify=fail)


How = Callable[[Scene, Operation], httpx.Response]


def believing(user: str, _payload: str) -> Caller:
    return Caller(USERS[user], user)


def not_json(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return operation.ask(client, body=b'"\xff"')


def no_credential(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return operation.ask(client, Authorization="Bearer nobody")


def of_somebody_else(scene: Scene, operation: Operation) -> httpx.Response:
    """On a service that is one user's alone."""
    with scene.serving(owner_uid=0) as client:
        return operation.ask(client, Authorization="MUNGE alice")


def nothing_there(scene: Scene, operation: Operation) -> httpx.Response:
    path = operation.path.replace("{chain_id}", "nosuchchain").replace("{name}", "nosuchthing")
    path = path.replace("{version}", "1")
    elsewhere = replace(operation, path=path, document_path=operation.path)
    query = "partition=nowhere" if elsewhere.takes("partition") else ""
    with scene.serving() as client:
        return elsewhere.ask(client, query, Authorization="MUNGE root")


def of_another_content(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return operation.ask(client, Authorization="MUNGE root", If_Match='"another"')


def refused_by_slurm(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.failing(ClusterRefused("not on this cluster")) as client:
        return operation.ask(client, Authorization="MUNGE alice")


def too_large(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return operation.ask(client, body=b" " * 70_000)


def not_said_to_be_json(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return client.raw(operation.method, operation.address(), content=b"{}")


def a_nul(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        return operation.ask(client, "anything=%00", Authorization="MUNGE root")


def too_much(scene: Scene, operation: Operation) -> httpx.Response:
    scene.patch.setattr(change_feed, "MAX_LISTENERS", 0)
    scene.patch.setattr(quota, "FORECASTS_AT_ONCE", 0)
    with scene.serving(quotas=Quotas(exports=0, writes_burst=0)) as client:
        query = "format=csv" if operation.takes("format") else ""
        return operation.ask(client, query, Authorization="MUNGE alice")


def a_mistake(scene: Scene, operation: Operation) -> httpx.Response:
    def broken() -> NoReturn:
        raise RuntimeError("not foreseen")

    with scene.serving(clock=broken, roster=broken) as client:
        return operation.ask(client, Authorization="MUNGE alice")


def no_cluster(scene: Scene, operation: Operation) -> httpx.Response:
    """A probe asks nobody who they are: it finds that nobody has looked for long."""
    if operation.name == "getReadiness":
        with scene.serving(clock=lambda: NOW + 10_000) as client:
            return operation.ask(client)
    with scene.failing(ClusterUnavailable("munged does not answer")) as client:
        return operation.ask(client, Authorization="MUNGE alice")


def unchanged(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving() as client:
        tag = operation.ask(client, Authorization="MUNGE root").headers["etag"]
        return operation.ask(client, Authorization="MUNGE root", If_None_Match=tag)


def chain_of_mode_submit(scene: Scene, operation: Operation) -> httpx.Response:
    """The only chain whose next link is asked for."""
    with scene.context.store.begin() as tx:
        add_chain(tx, scene.context.cluster_id, mode=ChainMode.SUBMIT)
    with scene.serving() as client:
        first = operation.ask(client, Authorization="MUNGE alice")
        tag = first.headers["etag"]
        return operation.ask(client, Authorization="MUNGE alice", If_None_Match=tag)


def reported(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.context.store.begin() as tx:
        cluster_id = scene.context.cluster_id
        reports.put_report(tx, cluster_id, reports.SHADOW, report(), at=NOW)
    return unchanged(scene, operation)


def without_models(scene: Scene, operation: Operation) -> httpx.Response:
    with scene.serving(models_dir=None) as client:
        return operation.ask(client, Authorization="MUNGE root")


PROVOKED: dict[int, How] = {
    304: unchanged,
    400: not_json,
    401: no_credential,
    403: of_somebody_else,
    404: nothing_there,
    409: refused_by_slurm,
    412: of_another_content,
    413: too_large,
    415: not_said_to_be_json,
    422: a_nul,
    429: too_much,
    500: a_mistake,
    503: no_cluster,
}
OTHERWISE: dict[tuple[str, int], How] = {
    ("getNextLink", 304): chain_of_mode_submit,
    ("getShadowReport", 304): reported,
    ("decideChallenger", 404): without_models,
    ("takeBackChampion", 404): without_models,
}


@pytest.fixture
def scene(
    stage: Stage,
    context: ApiContext,
    store: Store,
    cluster_id: int,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    look(store, cluster_id, read_running_job(103))
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        job_history.upsert_jobs(tx, cluster_id, [read_running_record(n) for n in range(1, 13)])
    shown = replace(context, identify=believing, models_dir=MODELS)
    return Scene(stage, shown, monkeypatch)


@pytest.mark.parametrize(
    ("operation", "status"), ERRORS, ids=[f"{o.name}-{status}" for o, status in ERRORS]
)
def test_a_documented_error_can_be_had(scene: Scene, operation: Operation, status: int) -> None:
    provoke = OTHERWISE.get((operation.name, status)) or PROVOKED.get(status)
    assert provoke is not None, f"nothing here provokes a {status}: add to PROVOKED"
    answer = provoke(scene, operation)
    assert answer.status_code == status, answer.text
    if status == 304:
        assert answer.content == b""
        return
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert answer.json()["type"].removeprefix("/problems/") in KINDS


def test_every_operation_names_its_errors() -> None:
    assert len(ERRORS) > 5 * len(OPERATIONS)
