"""A client generated from the committed document works against the real service."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mirage.database.access.tokens import Token
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Role
from mirage.web.identity import tokens
from mirage.web.shared.context import ApiContext
from tests.support.api.openapi_document import COMMITTED
from tests.support.api.rows import (
    add_chain,
    add_decision,
    add_links,
    look,
    read_running_job,
    read_running_record,
)
from tests.support.api.running import CHAIN, NOW, USERS, Stage

SETTINGS = """
post_hooks: []
project_name_override: made_client
package_name_override: made_client
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package, importable."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "settings.yaml").write_text(SETTINGS)
    words = ["generate", "--path", str(COMMITTED), "--meta", "none", "--fail-on-warning"]
    words += ["--output-path", str(folder / "made_client"), "--config", "settings.yaml"]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield folder / "made_client"
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_client"]:
        del sys.modules[name]


def part(name: str) -> ModuleType:
    return importlib.import_module(f"made_client.{name}")


@pytest.fixture
def service(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[str]:
    look(store, cluster_id, read_running_job(103))
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_decision(tx, cluster_id)
        job_history.upsert_jobs(tx, cluster_id, [read_running_record(n) for n in range(1, 25)])
    with stage.serving(replace(context)) as client:
        yield client.url


@pytest.fixture
def caller(made: Path, service: str, store: Store, cluster_id: int) -> Iterator[Any]:
    """As alice."""
    asked = Token(
        name="client",
        role=Role.USER,
        user="alice",
        uid=USERS["alice"],
        created_at=NOW,
        created_by="root",
        expires_at=NOW + 3600,
    )
    with store.begin() as tx:
        _, secret = tokens.create_token(tx, asked, cluster_id=cluster_id)
    with part("client").AuthenticatedClient(base_url=service, token=secret) as client:
        yield client


def test_every_operation_is_a_function(made: Path) -> None:
    found = {path.stem for path in (made / "api").glob("*/*.py")} - {"__init__"}
    assert {"list_chains", "register_chain", "stop_acting", "get_forecast"} <= found


def test_it_reads_and_writes(caller: Any) -> None:
    page = part("api.chains.list_chains").sync(client=caller, limit=5)
    assert [chain.chain_id for chain in page.items] == [CHAIN]
    assert page.items[0].created_at.tzinfo is not None
    whole = part("api.chains.get_chain").sync(CHAIN, client=caller)
    assert [link.job_id for link in whole.links] == [101, 102, 103]
    new = part("models").NewChain(chain_id="newchain0001", job_id=900, links=3)
    key = {"client": caller, "body": new, "idempotency_key": "once"}
    first = part("api.chains.register_chain").sync_detailed(**key)
    again = part("api.chains.register_chain").sync_detailed(**key)
    assert first.status_code == again.status_code == 201
    assert again.parsed == first.parsed
    paused = part("api.chains.pause_chain").sync(CHAIN, client=caller)
    assert paused.state == part("models").ChainState.PAUSED


def test_it_turns_pages_and_revalidates(caller: Any) -> None:
    ask = part("api.cluster.list_jobs")
    seen, cursor = [], part("types").UNSET
    while True:
        page = ask.sync(client=caller, limit=10, cursor=cursor)
        seen += [found.job_id for found in page.items]
        if page.next_ is None:
            break
        cursor = page.next_.partition("cursor=")[2]
    assert seen == [103, *range(24, 0, -1)]
    first = ask.sync_detailed(client=caller, limit=10)
    again = ask.sync_detailed(client=caller, limit=10, if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_a_problem_is_a_value_of_its_own(caller: Any) -> None:
    refused = part("api.system.stop_acting").sync(client=caller)
    assert isinstance(refused, part("models.problem").Problem)
    assert (refused.status, refused.type_) == (403, "/problems/not-allowed")
    wrong = part("api.cluster.list_jobs").sync(client=caller, limit=0)
    assert wrong.errors[0].parameter == "limit"
