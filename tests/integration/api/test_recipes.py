"""What a chain of mode submit leaves: kept where it is of use, and never shown."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mirage.domain.chain import ChainId
from mirage.http.context import ApiContext
from mirage.store.chains import recipes
from mirage.store.database.engine import Store
from tests.integration.api.test_chains import PATH, body
from tests.integration.api.test_identity import bearer, token
from tests.support.api.running import CHAIN, Client, Stage

RECIPE: dict[str, Any] = {
    "carrier": "/home/alice/secret-carrier/job.sh",
    "directory": "/home/alice",
    "name": "secret-name",
    "comment": "",
    "umask": 18,
    "options": {"time": "secret-time"},
}


@pytest.mark.parametrize("keeps", [True, False])
def test_it_is_kept_where_links_go_through_slurmrestd_and_shown_nowhere(
    stage: Stage, context: ApiContext, store: Store, *, keeps: bool
) -> None:
    with stage.serving(replace(context, keeps_recipes=keeps)) as client:
        answers = [client.post(PATH, body(mode="submit", recipe=RECIPE), who="alice").text]
        paths = (PATH, f"{PATH}/{CHAIN}", f"{PATH}/{CHAIN}/decisions", "/api/v1/audit")
        answers += [client.get(path, who="root").text for path in paths]
    assert "secret" not in "".join(answers)
    with store.read() as tx:
        assert (recipes.find_recipe(tx, 1, ChainId(CHAIN)) is not None) == keeps


def test_a_token_that_registers_chains_cannot_say_what_is_run(
    stage: Stage, context: ApiContext, store: Store
) -> None:
    """Whoever has stolen it would else have a command run as its user."""
    said = body(mode="submit", recipe=RECIPE)
    with stage.serving(replace(context, keeps_recipes=True)) as client:
        stolen = token(store, context.cluster_id)
        assert bearer(client, "POST", PATH, stolen, said).status_code == 201
        with store.read() as tx:
            assert recipes.find_recipe(tx, 1, ChainId(CHAIN)) is None
        client.post(PATH, body(mode="submit", recipe=RECIPE), who="alice")
        other = RECIPE | {"carrier": "/tmp/evil"}  # noqa: S108 - of somebody's
        bearer(client, "POST", PATH, stolen, body(mode="submit", recipe=other))
    with store.read() as tx:
        kept = recipes.find_recipe(tx, 1, ChainId(CHAIN))
    assert kept is not None
    assert kept.recipe.carrier == RECIPE["carrier"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"carrier": "relative"},
        {"carrier": "/" + "x" * 5000},
        {"options": {"$(id)": "1"}},
        {"options": {f"o{n}": "" for n in range(61)}},
        {"umask": 512},
        {"script": "#!/bin/sh"},
    ],
    ids=["relative", "long", "no-option", "many", "umask", "more"],
)
def test_one_that_no_wrapper_sends_is_refused(
    stage: Stage, context: ApiContext, wrong: dict[str, Any]
) -> None:
    with stage.serving(replace(context, keeps_recipes=True)) as client:
        answer = client.post(PATH, body(mode="submit", recipe=RECIPE | wrong), who="alice")
    assert (answer.status_code, json.loads(answer.text)["status"]) == (422, 422)


def test_when_a_link_has_failed_fast_is_its_users_word(client: Client) -> None:
    assert client.post(PATH, body(min_runtime_s=0), who="alice").status_code == 201
    assert client.post(PATH, body(min_runtime_s=-1), who="alice").status_code == 422
