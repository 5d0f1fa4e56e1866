"""Requests made up from the document, good and bad, to every operation as three callers: nothing
fails, and nothing is answered that the document does not say (Schemathesis).

MIRAGE_ANY_REQUEST=200 asks so many of each; what is asked is the same at every run.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from mirage.database.access.tokens import Token
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import NOBODY_UID, Role
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.job import JobState
from mirage.web.identity import tokens
from mirage.web.shared.context import ApiContext
from tests.support import patient
from tests.support.api.openapi_document import build_document
from tests.support.api.rows import (
    add_chain,
    add_decision,
    add_links,
    look,
    read_running_job,
    read_running_record,
)
from tests.support.api.running import CHAIN, NOW, USERS, Client, Stage
from tests.support.fixtures.store import store

__all__ = ["store"]

UPKEEP = ChainRisk(of=Risk.HINDERED, link=2, detail="Maintenance")

EXAMPLES = int(os.environ.get("MIRAGE_ANY_REQUEST", "4"))
"""Of each operation, caller, and kind of request."""

CHECKS: list[Callable[..., Any]] = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]

DOCUMENT = schemathesis.openapi.from_dict(build_document())
FOUND = list(DOCUMENT.get_all_operations())
OPERATIONS = {
    found.ok().definition.raw["operationId"]: found.ok() for found in FOUND if isinstance(found, Ok)
}
CALLERS = {"viewer": Role.VIEWER, "alice": Role.USER, "root": Role.ADMIN}
ASKED = [
    *(("sqlite", caller) for caller in CALLERS),
    pytest.param("postgresql", "root", marks=pytest.mark.postgres),
]
"""What differs between databases is what they take for text, whoever asks."""


@pytest.fixture
def service(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    """A little of everything, and nobody else who asks."""
    look(
        store,
        cluster_id,
        read_running_job(103),
        read_running_job(104, state=JobState.PENDING, start=None),
    )
    with store.begin() as tx:
        add_chain(tx, cluster_id, links_planned=8)
        add_links(tx, cluster_id)
        add_chain(tx, cluster_id, "bobschain001", "bob", created_at=NOW - 5, at_risk=UPKEEP)
        add_decision(tx, cluster_id)
        job_history.upsert_jobs(
            tx, cluster_id, [read_running_record(n, user="bob", uid=1002) for n in range(1, 60)]
        )
    with stage.serving(replace(context, pushers=("root",))) as client:
        yield client


@pytest.fixture
def session(caller: str, store: Store, cluster_id: int) -> Iterator[requests.Session]:
    """Of one caller."""
    name = caller
    asked = Token(
        name=name,
        role=CALLERS[name],
        user="" if name == "viewer" else name,
        uid=USERS.get(name, NOBODY_UID),
        created_at=NOW,
        created_by="root",
        expires_at=NOW + 3600,
    )
    with store.begin() as tx:
        _, secret = tokens.create_token(tx, asked, cluster_id=cluster_id)
    with requests.Session() as made_up:
        made_up.trust_env = False
        made_up.headers["Authorization"] = f"Bearer {secret}"
        yield made_up


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("database_url", "caller"), ASKED, indirect=["database_url"])
def test_any_request_is_answered_as_documented(
    name: str, service: Client, session: requests.Session, caller: str
) -> None:
    operation = OPERATIONS[name]
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @seed(20260302)
    @settings(
        max_examples=2 * EXAMPLES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, known=st.booleans())
    def ask(case: schemathesis.Case[Any], known: bool) -> None:
        if known and "chain_id" in case.path_parameters:
            case.path_parameters["chain_id"] = CHAIN
        if name == "streamEvents":
            case.query["for_s"] = 0  # what is there now: else it lasts ten minutes
        if known:
            case.headers.pop("authorization", None)
            case.headers.pop("Authorization", None)
        case.call_and_validate(service.url, session, checks=CHECKS, timeout=patient.PATIENCE_S)

    ask()


def test_every_operation_is_asked() -> None:
    assert len(OPERATIONS) == len(FOUND)
