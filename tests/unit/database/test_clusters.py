"""Clusters, their modes, and the lease."""

import threading

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.decision import Mode


def get_mode(tx: Transaction, cluster_id: int, partition: str = "") -> Mode:
    return clusters.resolve_mode(clusters.list_modes(tx, cluster_id), partition)


def test_a_name_has_one_id(store: Store) -> None:
    with store.begin() as tx:
        first = clusters.ensure_cluster(tx, "lab")
        assert clusters.ensure_cluster(tx, "lab") == first
        assert clusters.ensure_cluster(tx, "other") != first
        assert clusters.list_cluster_names(tx)[first] == "lab"


def test_mode_after_install_is_shadow(store: Store, cluster_id: int) -> None:
    with store.read() as tx:
        assert get_mode(tx, cluster_id) is Mode.SHADOW
        assert get_mode(tx, cluster_id, "gpu") is Mode.SHADOW


def test_partition_has_its_own_mode_or_the_clusters(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
        clusters.set_mode(tx, cluster_id, Mode.OBSERVE, "gpu")
        assert get_mode(tx, cluster_id, "gpu") is Mode.OBSERVE
        assert get_mode(tx, cluster_id, "cpu") is Mode.ACT
        assert clusters.list_modes(tx, cluster_id) == {"": Mode.ACT, "gpu": Mode.OBSERVE}


def test_of_several_partitions_the_most_careful_mode_counts(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
        assert get_mode(tx, cluster_id, "gpu,cpu") is Mode.SHADOW
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        assert get_mode(tx, cluster_id, "gpu,cpu") is Mode.ACT
        clusters.set_mode(tx, cluster_id, Mode.OBSERVE, "cpu")
        assert get_mode(tx, cluster_id, "gpu,cpu") is Mode.OBSERVE


def test_lease_is_held_until_it_expires(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        assert clusters.take_lease(tx, cluster_id, "a", now=100, ttl_s=60)
        assert not clusters.take_lease(tx, cluster_id, "b", now=159, ttl_s=60)
        assert clusters.take_lease(tx, cluster_id, "b", now=160, ttl_s=60)
        assert not clusters.take_lease(tx, cluster_id, "a", now=160, ttl_s=60)


def test_holder_renews_its_lease(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        assert clusters.take_lease(tx, cluster_id, "a", now=100, ttl_s=60)
        assert clusters.take_lease(tx, cluster_id, "a", now=150, ttl_s=60)
        assert not clusters.take_lease(tx, cluster_id, "b", now=200, ttl_s=60)


def test_only_the_holder_releases(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        clusters.take_lease(tx, cluster_id, "a", now=100, ttl_s=60)
        clusters.release_lease(tx, cluster_id, "b")
        assert not clusters.take_lease(tx, cluster_id, "b", now=101, ttl_s=60)
        clusters.release_lease(tx, cluster_id, "a")
        assert clusters.take_lease(tx, cluster_id, "b", now=101, ttl_s=60)


def test_of_two_workers_one_gets_the_lease(store: Store, cluster_id: int) -> None:
    """Each second the lease expires and both reach for it at once."""
    rounds = 25
    winners: list[list[str]] = [[] for _ in range(rounds)]
    together = threading.Barrier(2)

    def reach(holder: str) -> None:
        for second in range(rounds):
            together.wait(10)
            with store.begin() as tx:
                if clusters.take_lease(tx, cluster_id, holder, now=second, ttl_s=1):
                    winners[second].append(holder)

    threads = [threading.Thread(target=reach, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(w) for w in winners] == [1] * rounds
