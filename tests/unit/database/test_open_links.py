"""What a tick asks about: links that are open, and pairs of links by the thousand."""

from sqlalchemy import select

from mirage.database.chains import chains
from mirage.database.chains.open_links import list_open_links, list_overlapping_chains
from mirage.database.schema.engine import Store, Transaction
from mirage.database.schema.link_keys import LinkKey, match_links, pack_links
from mirage.database.schema.tables import links
from mirage.domain.chain import ChainId, ChainState, LinkState
from tests.support.chains import make_chain, make_link

PENDING, RUNNING, ENDED = LinkState.PENDING, LinkState.RUNNING, LinkState.ENDED


def put(
    tx: Transaction,
    cluster_id: int,
    name: str,
    *states: LinkState,
    freed: int | None = None,
    state: ChainState = ChainState.ACTIVE,
) -> None:
    """A chain with a link in each of `states`; `freed`: the index of one that was made eligible."""
    known = len(chains.list_chains(tx, cluster_id))
    chain_id = ChainId(name)
    chains.save_chain(tx, cluster_id, make_chain(chain_id, state=state))
    for index, link_state in enumerate(states, start=1):
        number, freed_at = 100 * (known + 1) + index, 5 if index == freed else None
        link = make_link(chain_id, index, number, state=link_state, freed_at=freed_at)
        chains.save_link(tx, cluster_id, link)


def test_open_links_are_those_of_live_chains_that_have_not_ended(
    store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        put(tx, cluster_id, "chain-b", ENDED, RUNNING, PENDING)
        put(tx, cluster_id, "chain-a", RUNNING, state=ChainState.PAUSED)
        put(tx, cluster_id, "chain-c", RUNNING, state=ChainState.FINISHED)
        found = [(li.chain_id, li.index) for li in list_open_links(tx, cluster_id)]
        running = [(li.chain_id, li.index) for li in list_open_links(tx, cluster_id, RUNNING)]
    assert found == [("chain-a", 1), ("chain-b", 2), ("chain-b", 3)]
    assert running == [("chain-a", 1), ("chain-b", 2)]


def test_chains_whose_links_run_beside_each_other_or_may_are_found(
    store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        put(tx, cluster_id, "held", ENDED, RUNNING, PENDING)
        put(tx, cluster_id, "freed", RUNNING, PENDING, freed=2)
        put(tx, cluster_id, "both", ENDED, RUNNING, RUNNING)
        put(tx, cluster_id, "freed-and-gone", RUNNING, ENDED, freed=2)
        put(tx, cluster_id, "freed-before", ENDED, RUNNING, freed=2)
        put(tx, cluster_id, "over", RUNNING, RUNNING, state=ChainState.CANCELLED)
        found = list_overlapping_chains(tx, cluster_id)
    assert sorted(found) == ["both", "freed", "freed-and-gone"]


def test_more_pairs_than_a_statement_has_parameters_are_asked_about_at_once(
    store: Store, cluster_id: int
) -> None:
    asked: list[LinkKey] = [(ChainId(f"chain-{n}"), n) for n in range(40_000)]
    with store.begin() as tx:
        put(tx, cluster_id, "chain-1", RUNNING, PENDING)
        put(tx, cluster_id, "chain-2", ENDED, RUNNING)
        wanted = match_links(tx.dialect.name, links.c.chain_id, links.c.index)
        query = select(links.c.chain_id, links.c.index).where(wanted)
        found = {tuple(pair) for pair in tx.execute(query, {"pairs": pack_links(asked)})}
        assert tx.execute(query, {"pairs": pack_links([])}).all() == []
    assert found == {("chain-1", 1), ("chain-2", 2)}
