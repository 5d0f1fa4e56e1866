"""Two transactions on one chain: the user's word and Mirage's own conclusion, in either order.

On PostgreSQL alone, since SQLite lets one writer in at a time and so has no rows to lock.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from sqlalchemy import text

from mirage.chains import lifecycle as chain_service
from mirage.chains import link_sync as link_service
from mirage.chains.explanations import describe_chain
from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import Chain, ChainState
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.job import Job, JobState
from mirage.errors import IllegalTransition
from tests.support.provision.slurm_jobs import (
    ALICE,
    CHAIN,
    HOUR,
    NOW,
    chain,
    ended,
    events,
    running,
    standby,
)

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

CLUSTER = 1
PATIENCE_S = 30.0


@pytest.fixture
def second() -> Iterator[ThreadPoolExecutor]:
    """A thread beside the test's own; each transaction it opens has a connection of its own."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        yield thread


def alices_chain(store: Store, *links: Job, at_risk: ChainRisk | None = None) -> None:
    with store.begin() as tx:
        assert clusters.ensure_cluster(tx, "lab") == CLUSTER
        made = Chain(chain_id=CHAIN, uid=ALICE, user="alice", links_planned=3, at_risk=at_risk)
        chains.save_chain(tx, CLUSTER, made)
        link_service.sync_links(tx, CLUSTER, links, NOW)


def pause(tx: Transaction) -> None:
    """As the API does it: looked at first, then asked for."""
    found = chains.get_chain(tx, CLUSTER, CHAIN)
    chain_service.request_state(tx, CLUSTER, found, ChainState.PAUSED, now=NOW, actor="alice")


def pause_in_its_own(store: Store) -> None:
    with store.begin() as tx:
        pause(tx)


def conclude_in_its_own(store: Store) -> None:
    with store.begin() as tx:
        chain_service.advance_chains(tx, CLUSTER, NOW)


def until_it_waits_for(tx: Transaction, store: Store, other: Future[None]) -> None:
    """Until PostgreSQL shows that `other` waits for a lock that `tx` holds."""
    holder = tx.scalar(text("SELECT pg_backend_pid()"))
    deadline = time.monotonic() + PATIENCE_S
    while not _waiting_for(holder, store):
        assert not wait([other], timeout=0.01).done, "it went ahead without waiting"
        assert time.monotonic() < deadline, "it neither waited nor ended"


def _waiting_for(holder: int, store: Store) -> bool:
    query = text("SELECT count(*) FROM pg_stat_activity WHERE :holder = ANY(pg_blocking_pids(pid))")
    with store.read() as tx:
        return bool(tx.scalar(query, {"holder": holder}))


def test_what_mirage_concludes_waits_for_a_pause_and_leaves_it(
    store: Store, second: ThreadPoolExecutor
) -> None:
    alone = ChainRisk(of=Risk.NO_STANDBY, link=1)
    alices_chain(store, running(1), standby(2), at_risk=alone)
    with store.begin() as tx:
        chains.get_chain(tx, CLUSTER, CHAIN, lock=True)
        concluding = second.submit(conclude_in_its_own, store)
        until_it_waits_for(tx, store, concluding)
        pause(tx)
    concluding.result(PATIENCE_S)
    after = chain(store)
    assert (after.state, describe_chain(after)) == (ChainState.PAUSED, "paused by alice")


def test_a_pause_waits_for_what_mirage_concludes_and_is_refused_by_it(
    store: Store, second: ThreadPoolExecutor
) -> None:
    alices_chain(store, ended(1, JobState.CANCELLED, NOW - HOUR, NOW), standby(2))
    with store.begin() as tx:
        chain_service.advance_chains(tx, CLUSTER, NOW)
        pausing = second.submit(pause_in_its_own, store)
        until_it_waits_for(tx, store, pausing)
    with pytest.raises(IllegalTransition, match="is cancelled: it cannot become paused"):
        pausing.result(PATIENCE_S)
    after = chain(store)
    assert (after.state, describe_chain(after)) == (ChainState.CANCELLED, "link 1 was cancelled")
    assert events(store) == ["chain cancelled"]
