"""Two clusters may share a database: each look-up names the cluster whose rows it may touch."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

import mirage.database
from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.errors import NotFound, StoreError
from tests.support.chains import make_chain, make_link

OF_ALL = {
    "forget_expired_keys": "whatever has expired goes",
    "claim_credential": "a credential counts once, at whatever cluster",
    "add_session": "a session is that of a token, which is asked for its cluster",
    "find_session_token": "as above",
    "remove_session": "as above",
    "add_token": "a token may be good for every cluster: tokens.resolve_caller asks it",
    "find_token": "as above",
    "list_tokens": "as above, on the command line",
    "revoke_token": "as above, on the command line",
    "put_would_free": "the table hangs on links, which were read by cluster",
    "list_would_free": "as above",
    "finish_run": "the run was begun for a cluster",
    "intend_state": "of a challenge, which was found by cluster",
    "forget_intention": "as above",
    "record_judgement": "as above",
    "close_challenge": "as above",
    "run_before_commit": "of no table",
    "read_schema_version": "of no cluster",
    "build_insert": "of any table: its values name the cluster",
    "put_row": "as above",
    "put_rows": "as above",
    "put_row_if_absent": "as above",
    "set_audit_credential": "of no table",
    "enqueue_notices": "each notice names its cluster",
    "ensure_cluster": "makes the cluster",
    "rename_cluster": "names the cluster",
    "list_cluster_names": "of all clusters",
    "measure_size_bytes": "of no table",
    "read_database_version": "of no table",
}


def list_queries() -> Iterator[tuple[str, Callable[..., object]]]:
    """Each public function of the store that is given a transaction."""
    for found in pkgutil.walk_packages(mirage.database.__path__, "mirage.database."):
        module = import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == found.name and not name.startswith("_")
            if own and "tx" in inspect.signature(function).parameters:
                yield name, function


def test_each_query_of_the_store_is_asked_for_one_cluster() -> None:
    for name, function in list_queries():
        words = inspect.signature(function).parameters
        named = next((words[w] for w in ("cluster_id", "span") if w in words), None)
        if name in OF_ALL:
            assert named is None, f"{name} names a cluster now: take it from OF_ALL"
            continue
        assert named is not None, f"{function.__module__}.{name} takes no cluster_id"
        assert named.default is inspect.Parameter.empty, f"{name} may be asked for all clusters"


def test_no_exception_outlives_its_function() -> None:
    assert set(OF_ALL) <= {name for name, _ in list_queries()}


@pytest.mark.usefixtures("saved_chain")
def test_what_belongs_to_another_cluster_is_neither_found_nor_taken_over(
    store: Store, cluster_id: int
) -> None:
    mine = make_chain()
    link = make_link(mine.chain_id, 1, 7)
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
        chains.save_link(tx, cluster_id, link)
    with store.read() as tx:
        with pytest.raises(NotFound):
            chains.get_chain(tx, other, mine.chain_id)
        assert chains.find_chains(tx, other, [mine.chain_id]) == {}
        assert chains.list_links(tx, other, mine.chain_id) == []
        wanted = [mine.chain_id, ChainId("nowhere1")]
        assert chains.list_chains_elsewhere(tx, other, wanted) == {mine.chain_id}
        assert chains.list_chains_elsewhere(tx, cluster_id, wanted) == frozenset()
    with store.begin() as tx, pytest.raises(StoreError, match="belongs to another cluster"):
        chains.save_chain(tx, other, mine)
    with store.begin() as tx, pytest.raises(StoreError, match="belongs to another cluster"):
        chains.save_link(tx, other, link)
    with store.read() as tx:
        assert chains.get_chain(tx, cluster_id, mine.chain_id) == mine
        assert chains.list_links(tx, cluster_id, mine.chain_id) == [link]
