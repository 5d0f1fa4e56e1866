"""Changes are numbered in the order of their commits, whoever makes them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mirage.database.events import changes
from mirage.database.events.changes import Change, Topic
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId

A, B = ChainId("aaaaaaaa"), ChainId("bbbbbbbb")


def tell(store: Store, cluster_id: int, topic: Topic = Topic.QUEUE) -> None:
    with store.begin() as tx:
        changes.record_change(tx, cluster_id, topic)


def numbers(store: Store, cluster_id: int, after: int = 0) -> list[tuple[int, Topic]] | None:
    with store.read() as tx:
        found = changes.list_changes_since(tx, cluster_id, after, 1000)
    return None if found is None else [(change.seq, change.topic) for change in found]


def test_what_one_transaction_does_is_one_change_of_each_topic(
    store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        for chain_id in (A, A, B):
            changes.record_change(tx, cluster_id, Topic.CHAINS, [chain_id])
        changes.record_change(tx, cluster_id, Topic.MODE)
        assert changes.read_newest_seq(tx, cluster_id) == 0  # not before the end
    with store.read() as tx:
        assert changes.list_changes_since(tx, cluster_id, 0, 10) == [
            Change(seq=1, topic=Topic.CHAINS, chain_ids=[A, B]),
            Change(seq=2, topic=Topic.MODE, chain_ids=[]),
        ]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.postgres
def test_who_commits_first_has_the_lower_number(store: Store, cluster_id: int) -> None:
    """A reader that has seen a number never finds a lower one later."""
    with store.begin() as slow:
        changes.record_change(slow, cluster_id, Topic.CHAINS, [A])
        tell(store, cluster_id, Topic.MODE)
        assert numbers(store, cluster_id) == [(1, Topic.MODE)]
    assert numbers(store, cluster_id, after=1) == [(2, Topic.CHAINS)]


def test_many_writers_leave_no_gap(store: Store, cluster_id: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tell(store, cluster_id), range(40)))
    assert numbers(store, cluster_id) == [(n, Topic.QUEUE) for n in range(1, 41)]


def test_clusters_are_counted_apart(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
        changes.record_change(tx, cluster_id, Topic.QUEUE)
        changes.record_change(tx, other, Topic.MODE)
    assert numbers(store, cluster_id) == [(1, Topic.QUEUE)]
    assert numbers(store, other) == [(1, Topic.MODE)]


def test_old_changes_go_and_who_needs_them_is_told(
    store: Store, cluster_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "KEPT", 10)
    for _ in range(100):
        tell(store, cluster_id)
    assert numbers(store, cluster_id) is None
    assert numbers(store, cluster_id, after=89) is None
    assert numbers(store, cluster_id, after=90) == [(n, Topic.QUEUE) for n in range(91, 101)]
    assert numbers(store, cluster_id, after=100) == []
    assert numbers(store, cluster_id, after=101) is None
