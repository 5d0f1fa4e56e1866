"""What is taken away once it is old, in both databases."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from mirage.database.chains import chain_counts, chains
from mirage.database.events import audit, outbox
from mirage.database.events.audit import AuditEntry
from mirage.database.events.outbox import Situation
from mirage.database.schema import pruning, tables
from mirage.database.schema.engine import Store, Transaction
from mirage.database.schema.pruning import EventFilter
from mirage.domain.chain import Chain, ChainId, ChainState
from tests.support.chains import make_link

OVER = Chain(
    chain_id=ChainId("overover"), uid=1, user="alice", state=ChainState.FAILED, created_at=100
)
EVENTS = EventFilter(
    words=("registered",), beginnings=("free: ", "asked: "), owner_beginning="asked: "
)


def wrote(tx: Transaction, cluster_id: int, event: str, **more: Any) -> None:
    given: dict[str, Any] = {"at": 100, "actor": "mirage", "chain_id": OVER.chain_id}
    audit.write_entry(tx, cluster_id, AuditEntry(event=event, **given | more))


def left(tx: Transaction) -> list[str]:
    """Oldest first."""
    return [entry.event for entry in audit.list_entries(tx, 1, limit=500)][::-1]


def test_a_chains_routine_goes_and_all_else_stays(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, OVER)
        wrote(tx, cluster_id, "free: done")
        wrote(tx, cluster_id, "free:ing others")
        wrote(tx, cluster_id, "registered")
        wrote(tx, cluster_id, "registered", at=200)
        wrote(tx, cluster_id, "registered", chain_id=None)
        wrote(tx, cluster_id, "asked: paused", actor="alice")
        wrote(tx, cluster_id, "asked: cancelled", actor="root")
        wrote(tx, cluster_id, "foreign mark")
        wrote(tx, cluster_id, "mode set", actor="root", chain_id=None)
        assert pruning.prune_audit(tx, cluster_id, 200, 100, events=EVENTS) == 3
        kept = ["free:ing others", "registered", "registered", "asked: cancelled"]
        assert left(tx) == [*kept, "foreign mark", "mode set"]
        assert pruning.prune_audit(tx, cluster_id, 200, 100) == 5
        assert left(tx) == ["registered"]


def test_what_tells_of_a_live_chain_stays(store: Store, cluster_id: int) -> None:
    """How it goes on is read from it: that its owner paused it, say."""
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, replace(OVER, state=ChainState.PAUSED))
        wrote(tx, cluster_id, "registered")
        assert pruning.prune_audit(tx, cluster_id, 200, 100, events=EVENTS) == 0
        assert pruning.prune_audit(tx, cluster_id, 200, 100) == 0
        chains.save_chain(tx, cluster_id, OVER)
        assert pruning.prune_audit(tx, cluster_id, 200, 100, events=EVENTS) == 1


def test_what_tells_of_a_chain_that_is_gone_goes(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        wrote(tx, cluster_id, "asked: paused", actor="alice")
        assert pruning.prune_audit(tx, cluster_id, 200, 100, events=EVENTS) == 1


def test_no_more_goes_at_once_than_is_asked_for(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for _ in range(5):
            wrote(tx, cluster_id, "registered")
        counts = [pruning.prune_audit(tx, cluster_id, 200, 2, events=EVENTS) for _ in range(4)]
        assert counts == [2, 2, 1, 0]


def test_another_clusters_rows_are_its_own(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, OVER)
        wrote(tx, cluster_id, "registered")
        assert pruning.prune_audit(tx, cluster_id + 1, 200, 100) == 0
        assert pruning.prune_empty_chains(tx, cluster_id + 1, 200, 100) == 0


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({}, True),
        ({"state": ChainState.CANCELLED}, True),
        ({"state": ChainState.ACTIVE}, False),
        ({"state": ChainState.PAUSED}, False),
        ({"created_at": 200}, False),
    ],
)
def test_a_chain_that_never_had_a_job_goes(
    store: Store, cluster_id: int, more: dict[str, Any], goes: bool
) -> None:
    chain = replace(OVER, **more)
    kept = {"chain_id": chain.chain_id, "uid": 1, "recipe": {"of": "an earlier release"}}
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, chain)
        tx.execute(insert(tables.recipes), kept)
        outbox.save_situations(tx, cluster_id, [(chain.chain_id, Situation())])
        assert pruning.prune_empty_chains(tx, cluster_id, 200, 100) == goes
    with store.read() as tx:
        assert len(chains.list_chains(tx, cluster_id)) == (not goes)


def test_a_chain_that_had_a_job_stays_for_good(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for number in range(4):
            chain_id = ChainId(f"overover{number}")
            chains.save_chain(tx, cluster_id, replace(OVER, chain_id=chain_id))
        chains.save_link(tx, cluster_id, make_link("overover2", job_id=7, submit=1))
        assert pruning.prune_empty_chains(tx, cluster_id, 200, 2) == 2
        assert pruning.prune_empty_chains(tx, cluster_id, 200, 2) == 1
        assert [chain.chain_id for chain in chains.list_chains(tx, cluster_id)] == ["overover2"]


def test_chains_of_one_user_are_counted_since_then(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        assert chain_counts.count_registrations_since(tx, cluster_id, 1, 0) == (0, None)
        for number, at in enumerate((100, 200, 300)):
            chain_id = ChainId(f"overover{number}")
            chains.save_chain(tx, cluster_id, replace(OVER, chain_id=chain_id, created_at=at))
        other = replace(OVER, chain_id=ChainId("bobsbobs"), uid=2, created_at=250)
        chains.save_chain(tx, cluster_id, other)
        assert chain_counts.count_registrations_since(tx, cluster_id, 1, 100) == (2, 200)
        assert chain_counts.count_registrations_since(tx, cluster_id + 1, 1, 0) == (0, None)
