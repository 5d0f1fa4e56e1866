"""What the site has learned, over HTTP: read and decided by admins alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.schema.engine import Store
from mirage.policies import registry
from mirage.policies.models.artefact import GRAPH
from mirage.provision.learning.model_promoter import PromotionMode
from mirage.web.api.app import ApiContext
from tests.support.api.running import NOW, Client
from tests.support.training.committed import save

LEARNING = "/api/v1/learning"
CHALLENGER, CHAMPION = f"{LEARNING}/challenger", f"{LEARNING}/champion"
EVIDENCE: dict[str, Any] = {
    "rule": "twin",
    "why": "costs less",
    "judgements": 2,
    "cost_h": {"challenger": 0.8, "champion": 1.0, "twin": 1.1},
    "against": {
        "twin": {
            "difference_h": -0.3,
            "difference_h_ci": [-0.5, None],
            "handovers": 480,
            "owners": 12,
            "days": 28,
        }
    },
}
FIGURES = {"quantile": {"interruption_h": 1.0, "overlap_h": 0.5, "cost_h": 1.2, "ci": [1.0, 1.4]}}


@pytest.fixture
def model(context: ApiContext) -> str:
    return f"models/site-{context.cluster_name}/1"


@pytest.fixture
def context(context: ApiContext, tmp_path: Path) -> ApiContext:
    for version in ("1", "2"):
        save(tmp_path / "models" / f"site-{context.cluster_name}" / version)
    return replace(context, models_dir=tmp_path / "models", promotion_mode=PromotionMode.NEVER)


@pytest.fixture
def proposed(store: Store, cluster_id: int, model: str) -> int:
    with store.begin() as tx:
        challenge_id = challenges.start_challenge(
            tx, cluster_id, model=model, champion=None, at=NOW - 9
        )
        challenges.close_challenge(
            tx, challenge_id, state=ChallengeState.PROPOSED, at=NOW - 5, evidence=EVIDENCE
        )
    return challenge_id


def put(client: Client, path: str, model: str, state: str, who: str = "root", **more: Any) -> Any:
    body = json.dumps({"model": model, "state": state}).encode()
    return client.put(path, body, who=who, **more)


def read(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(LEARNING, who="root").json()
    return found


def test_before_anything_was_learned_there_is_nothing(client: Client) -> None:
    assert read(client) == {
        "promote": "never",
        "champion": None,
        "challenger": None,
        "figures": {},
        "challenges": [],
        "runs": [],
    }


def test_runs_and_figures_are_told(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for at, document in (
            (NOW - 500, {"figures": FIGURES, "sentence": "1 was proposed"}),
            (NOW - 300, {"error": "the disk is full"}),
        ):
            run_id = learning_runs.begin_run(tx, cluster_id, at=at, reason="a week passed")
            state = RunState.FAILED if "error" in document else RunState.DONE
            learning_runs.finish_run(tx, run_id, at=at + 60, state=state, document=document)
        learning_runs.begin_run(tx, cluster_id, at=NOW, reason="a week passed")
    found = read(client)
    assert [(run["state"], run["took_s"], run["outcome"]) for run in found["runs"]] == [
        ("running", None, "it goes on"),
        ("failed", 60, "it failed: the disk is full"),
        ("done", 60, "1 was proposed"),
    ]
    assert found["figures"] == FIGURES


@pytest.mark.usefixtures("proposed")
def test_a_proposal_is_told_with_its_figures_and_promoted(client: Client, model: str) -> None:
    found = read(client)
    challenger = found["challenger"]
    assert (challenger["model"], challenger["state"], challenger["judgements"]) == (
        model,
        "proposed",
        2,
    )
    assert challenger["against"] == [{"against": "twin", **EVIDENCE["against"]["twin"]}]
    answer = put(client, CHALLENGER, model, "promoted")
    assert answer.status_code == 200
    assert answer.json()["champion"]["model"] == model
    assert answer.json()["challenger"] is None
    assert put(client, CHALLENGER, model, "promoted").status_code == 200
    entry = client.get("/api/v1/audit", who="root").json()["items"][0]
    assert (entry["actor"], entry["event"]) == ("root", "model promoted")
    assert entry["detail"]["via"]


@pytest.mark.usefixtures("proposed")
def test_a_proposal_is_declined(client: Client, context: ApiContext, model: str) -> None:
    assert put(client, CHALLENGER, model, "declined").json()["challenger"] is None
    assert put(client, CHALLENGER, model, "declined").status_code == 409
    assert put(client, CHALLENGER, model, "promoted").status_code == 409
    assert context.models_dir is not None
    assert registry.find_promoted_version(context.models_dir / Path(model).parent.name) is None


@pytest.mark.usefixtures("proposed")
def test_what_is_in_use_is_taken_back(client: Client, model: str) -> None:
    put(client, CHALLENGER, model, "promoted")
    answer = put(client, CHAMPION, model, "rolled-back")
    assert answer.status_code == 200
    assert answer.json()["champion"] is None
    assert answer.json()["challenges"][0]["state"] == "rolled-back"
    assert put(client, CHAMPION, model, "rolled-back").status_code == 409


def test_a_model_in_use_that_decides_nothing_says_why(
    client: Client, store: Store, cluster_id: int, context: ApiContext, model: str
) -> None:
    assert context.models_dir is not None
    folder = registry.resolve_folder(model, context.models_dir)
    registry.promote_version(folder)
    assert read(client)["champion"]["not_asked"] == ""
    for number, about in enumerate((model, "models/site-other/1")):
        not_asked = {"model": about, "why": "it was asked at 0 of 9 hand-overs"}
        with store.begin() as tx:
            run_id = learning_runs.begin_run(tx, cluster_id, at=NOW + number, reason="")
            learning_runs.finish_run(
                tx,
                run_id,
                at=NOW + number,
                state=RunState.NOTHING_TO_DO,
                document={"not_asked": not_asked},
            )
        expected = not_asked["why"] if about == model else ""
        assert read(client)["champion"]["not_asked"] == expected
    (folder / GRAPH).write_bytes(b"damaged")
    registry.promote_version(folder, {"at": NOW})  # the card has changed: the model is loaded anew
    says = read(client)["champion"]["not_asked"]
    assert says.startswith(f"{model} is in use, but decides nothing: ")


@pytest.mark.usefixtures("proposed")
def test_a_change_may_name_what_its_caller_has_seen(
    client: Client, store: Store, cluster_id: int, model: str
) -> None:
    seen = client.get(LEARNING, who="root").headers["etag"]
    with store.begin() as tx:
        learning_runs.begin_run(tx, cluster_id, at=NOW, reason="a week passed")
    stale = put(client, CHALLENGER, model, "promoted", headers={"If-Match": seen})
    assert stale.status_code == 412
    newest = client.get(LEARNING, who="root").headers["etag"]
    fresh = put(client, CHALLENGER, model, "promoted", headers={"If-Match": newest})
    assert fresh.status_code == 200


@pytest.mark.usefixtures("proposed")
def test_others_read_and_change_nothing(client: Client, context: ApiContext, model: str) -> None:
    assert client.get(LEARNING).status_code == 401
    assert client.get(LEARNING, who="alice").status_code == 403
    assert put(client, CHALLENGER, model, "promoted", who="alice").status_code == 403
    assert put(client, CHAMPION, model, "rolled-back", who="alice").status_code == 403
    assert context.models_dir is not None
    assert registry.find_promoted_version(context.models_dir / Path(model).parent.name) is None


@pytest.mark.usefixtures("proposed")
@pytest.mark.parametrize("name", ["../site-lab/1", "models/../1", "models/site-lab/..", "quantile"])
def test_a_name_leads_out_of_no_folder(client: Client, name: str) -> None:
    assert put(client, CHALLENGER, name, "promoted").status_code == 422
