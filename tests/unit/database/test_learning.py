"""Runs of learning and challenges in the database, on both engines."""

import pytest
from sqlalchemy.exc import IntegrityError

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.database.schema.learning_tables import challenges as table
from mirage.errors import IllegalTransition, MirageError, NotFound

NOW = 1_800_000_000
MODEL = "models/site-lab/1"


def begun(store: Store, cluster_id: int, at: int = NOW) -> int:
    with store.begin() as tx:
        return learning_runs.begin_run(tx, cluster_id, at=at, reason="no model")


def started(store: Store, cluster_id: int, model: str = MODEL) -> int:
    with store.begin() as tx:
        return challenges.start_challenge(tx, cluster_id, model=model, champion=None, at=NOW)


def closed(store: Store, challenge_id: int, state: ChallengeState) -> None:
    with store.begin() as tx:
        challenges.close_challenge(tx, challenge_id, state=state, at=NOW + 9, evidence={"why": "x"})


def test_a_run_is_told_as_it_went(store: Store, cluster_id: int) -> None:
    run_id = begun(store, cluster_id)
    with store.begin() as tx:
        (run,) = learning_runs.read_runs(tx, cluster_id, most=5)
        assert (run.state, run.ended_at, run.document) == (RunState.RUNNING, None, {})
        learning_runs.finish_run(
            tx, run_id, at=NOW + 60, state=RunState.DONE, document={"figures": {"twin": {}}}
        )
        (run,) = learning_runs.read_runs(tx, cluster_id, most=5)
    assert (run.id, run.begun_at, run.ended_at) == (run_id, NOW, NOW + 60)
    assert (run.state, run.reason, run.document) == (
        RunState.DONE,
        "no model",
        {"figures": {"twin": {}}},
    )


def test_a_run_that_never_ended_was_interrupted(store: Store, cluster_id: int) -> None:
    begun(store, cluster_id)
    begun(store, cluster_id, NOW + 500)
    with store.read() as tx:
        newest, older = learning_runs.read_runs(tx, cluster_id, most=5)
    assert (newest.state, older.state, older.ended_at) == (
        RunState.RUNNING,
        RunState.INTERRUPTED,
        NOW + 500,
    )


def test_runs_come_newest_first_and_page_by_page(store: Store, cluster_id: int) -> None:
    ids = [begun(store, cluster_id, NOW + at) for at in range(5)]
    with store.read() as tx:
        first = learning_runs.read_runs(tx, cluster_id, most=2)
        rest = learning_runs.read_runs(tx, cluster_id, most=9, before=first[-1].id)
    assert [run.id for run in (*first, *rest)] == ids[::-1]


def test_a_run_that_is_not_there_cannot_be_finished(store: Store) -> None:
    with store.begin() as tx, pytest.raises(NotFound):
        learning_runs.finish_run(tx, 99, at=NOW, state=RunState.DONE, document={})


def test_one_challenger_stands_at_a_time(store: Store, cluster_id: int) -> None:
    challenge_id = started(store, cluster_id)
    with pytest.raises(IllegalTransition, match="one challenger at a time"):
        started(store, cluster_id, "models/site-lab/2")
    closed(store, challenge_id, ChallengeState.PROPOSED)
    with pytest.raises(IllegalTransition, match="one challenger at a time"):
        started(store, cluster_id, "models/site-lab/2")
    closed(store, challenge_id, ChallengeState.DECLINED)
    started(store, cluster_id, "models/site-lab/2")


def test_the_database_itself_takes_no_second_challenger(store: Store, cluster_id: int) -> None:
    """Two services that look at the same moment both find none."""
    started(store, cluster_id)
    values = {"cluster_id": cluster_id, "model": "models/site-lab/2", "proposed_at": NOW}
    values |= {"state": "shadow", "decided_by": "", "evidence": {}}
    with pytest.raises((IntegrityError, MirageError)), store.begin() as tx:
        tx.execute(table.insert().values(**values))


def test_clusters_have_challengers_of_their_own(store: Store, cluster_id: int) -> None:
    started(store, cluster_id)
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
    started(store, other)
    begun(store, other)
    with store.read() as tx:
        assert len(challenges.read_challenges(tx, cluster_id, most=9)) == 1
        assert learning_runs.read_runs(tx, cluster_id, most=9) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ChallengeState.PROMOTED, ChallengeState.DECLINED),
        (ChallengeState.PROMOTED, ChallengeState.PROMOTED),
        (ChallengeState.DECLINED, ChallengeState.PROMOTED),
        (ChallengeState.DROPPED, ChallengeState.ROLLED_BACK),
        (ChallengeState.PROPOSED, ChallengeState.ROLLED_BACK),
        (ChallengeState.PROPOSED, ChallengeState.PROPOSED),
    ],
)
def test_what_is_settled_is_settled_once(
    store: Store, cluster_id: int, first: ChallengeState, second: ChallengeState
) -> None:
    challenge_id = started(store, cluster_id)
    closed(store, challenge_id, first)
    with pytest.raises(IllegalTransition):
        closed(store, challenge_id, second)
    with store.read() as tx:
        assert challenges.get_challenge(tx, cluster_id, challenge_id).state is first


def test_what_is_intended_is_not_settled_otherwise(store: Store, cluster_id: int) -> None:
    challenge_id = started(store, cluster_id)
    with store.begin() as tx:
        challenges.intend_state(
            tx, challenge_id, state=ChallengeState.PROMOTED, by="root", evidence={"at": NOW}
        )
    with pytest.raises(IllegalTransition):
        closed(store, challenge_id, ChallengeState.DECLINED)
    with store.read() as tx:
        (intended,) = challenges.list_intended(tx, cluster_id)
    assert (intended.intended, intended.decided_by) == (ChallengeState.PROMOTED, "root")
    closed(store, challenge_id, ChallengeState.PROMOTED)
    with store.read() as tx:
        assert challenges.list_intended(tx, cluster_id) == []
        found = challenges.find_promotion(tx, cluster_id, MODEL)
    assert found is not None
    assert (found.intended, found.judged_at, found.evidence) == (None, NOW + 9, {"why": "x"})
