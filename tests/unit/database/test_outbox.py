"""The outbox, on both databases."""

from mirage.database.chains import chains
from mirage.database.events import outbox
from mirage.database.events.outbox import Notice, NoticeState, Situation
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId, ChainState, Link, LinkState
from tests.support.chains import make_link

NOW = 1_800_000_000
CHAIN, OTHER = ChainId("firstchain1"), ChainId("secondchain")


def notice(chain_id: ChainId = CHAIN, channel: str = "owner", at: int = NOW) -> Notice:
    return Notice(
        cluster_id=1,
        chain_id=chain_id,
        user="alice",
        channel=channel,
        event="ended",
        says="it ended",
        at=at,
    )


def posted(store: Store, *new: Notice) -> None:
    with store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        outbox.enqueue_notices(tx, new)


def claimed(store: Store, *, now: int = NOW, channel: str = "owner") -> list[int]:
    with store.begin() as tx:
        found = outbox.claim_notices(tx, 1, channel, CHAIN, now=now, until=now + 300)
    return [one.tries for one in found]


def test_due_is_what_waits_for_nothing(store: Store) -> None:
    posted(store, notice(OTHER, at=NOW + 1), notice(), notice(channel="webhook"), notice())
    with store.read() as tx:
        found = outbox.list_due_deliveries(tx, 1, NOW)
        assert sorted(one[:2] for one in found) == [("owner", CHAIN), ("webhook", CHAIN)]
        assert outbox.list_due_deliveries(tx, 1, NOW + 1)[-1][:2] == ("owner", OTHER), (
            "longest waiting first"
        )


def test_a_claim_is_one_processs_until_it_runs_out(store: Store) -> None:
    posted(store, notice(), notice())
    assert claimed(store) == [1, 1]
    assert claimed(store, now=NOW + 299) == []
    assert claimed(store, now=NOW + 300) == [2, 2]


def test_what_is_settled_is_not_due_and_is_forgotten_in_time(store: Store) -> None:
    posted(store, notice())
    with store.begin() as tx:
        (one,) = outbox.claim_notices(tx, 1, "owner", CHAIN, now=NOW, until=NOW + 300)
        outbox.settle_notices(tx, 1, [one.id], NoticeState.SENT, sent_at=NOW + 5)
    with store.begin() as tx:
        assert outbox.list_due_deliveries(tx, 1, NOW + 10_000) == []
        assert outbox.read_last_sent_at(tx, 1, "owner", CHAIN) == NOW + 5
        assert outbox.count_digests_since(tx, 1, NOW) == {("owner", "alice"): 1}
        outbox.forget_settled_notices(tx, 1, NOW + 1)
        assert outbox.read_last_sent_at(tx, 1, "owner", CHAIN) is None


def test_notices_that_went_together_count_as_one_digest(store: Store) -> None:
    posted(store, notice(), notice(), notice(OTHER))
    with store.begin() as tx:
        for chain_id in (CHAIN, OTHER):
            found = outbox.claim_notices(tx, 1, "owner", chain_id, now=NOW, until=NOW + 300)
            outbox.settle_notices(
                tx, 1, [one.id for one in found], NoticeState.SENT, sent_at=NOW + 5
            )
        assert outbox.count_digests_since(tx, 1, NOW) == {("owner", "alice"): 2}
        assert outbox.count_digests_since(tx, 1, NOW + 5) == {}


def test_putting_off_moves_nothing_forward(store: Store) -> None:
    posted(store, notice(at=NOW + 900), notice())
    with store.begin() as tx:
        outbox.put_off_notices(tx, 1, "owner", CHAIN, NOW + 60)
        assert outbox.list_due_deliveries(tx, 1, NOW + 899) == []
        assert outbox.list_due_deliveries(tx, 1, NOW + 900) == [("owner", CHAIN, "alice")]


def test_a_chain_is_idle_between_its_links(store: Store) -> None:
    def link(chain_id: ChainId, index: int, start: int | None, end: int | None) -> Link:
        state = LinkState.PENDING if start is None else LinkState.RUNNING
        return make_link(
            chain_id,
            index,
            10 * index + len(chain_id),
            submit=NOW if chain_id == CHAIN else NOW + 1,
            state=state if end is None else LinkState.ENDED,
            start=start,
            end=end,
        )

    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        for chain_id in (CHAIN, OTHER):
            chains.save_chain(tx, cluster_id, Chain(chain_id=chain_id, uid=1, created_at=NOW))
        chains.save_link(tx, cluster_id, link(OTHER, 1, None, None))
        assert outbox.find_idle_since(tx, cluster_id) == {}, "nothing has run"
        chains.save_link(tx, cluster_id, link(CHAIN, 1, NOW - 500, NOW - 100))
        chains.save_link(tx, cluster_id, link(CHAIN, 2, None, None))
        assert outbox.find_idle_since(tx, cluster_id) == {CHAIN: NOW - 100}
        chains.save_link(tx, cluster_id, link(CHAIN, 2, NOW - 50, None))
        assert outbox.find_idle_since(tx, cluster_id) == {}


def test_situations_are_kept_until_the_chain_is_over(store: Store) -> None:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        for chain_id in (CHAIN, OTHER):
            one = Chain(chain_id=chain_id, uid=1, created_at=NOW, state=ChainState.FAILED)
            chains.save_chain(tx, cluster_id, one)
        assert sorted(outbox.list_unseen_ended_chains(tx, cluster_id, NOW)) == [CHAIN, OTHER]
        assert outbox.list_unseen_ended_chains(tx, cluster_id, NOW + 1) == []
        paused = Situation(ChainState.PAUSED, "NoStandby", interrupted=True)
        outbox.save_situations(tx, cluster_id, [(CHAIN, Situation()), (OTHER, Situation())])
        outbox.save_situations(tx, cluster_id, [(CHAIN, paused)])
        outbox.save_situations(tx, cluster_id, [(OTHER, Situation(ChainState.FAILED))])
        assert outbox.list_open_situations(tx, cluster_id) == {CHAIN: paused}
        assert outbox.list_unseen_ended_chains(tx, cluster_id, NOW) == []
