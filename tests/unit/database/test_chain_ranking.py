"""Chains in the order to look at them, on both databases."""

from dataclasses import replace

from mirage.database.access import sessions
from mirage.database.chains import chain_ranking, chains
from mirage.database.chains.chain_ranking import (
    AT_RISK,
    NEVER,
    ORDINARY,
    PAUSED,
    RankedChain,
    RankingFilter,
)
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.callers.caller import OwnRows
from mirage.domain.chain import ChainId, ChainState, LinkState
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.timelimit import UNLIMITED
from tests.support.chains import make_chain, make_link
from tests.support.web.credentials import token_of

ALL = RankingFilter()


def add(  # noqa: PLR0913 - as a chain has them
    tx: Transaction,
    cluster_id: int,
    name: str,
    *,
    limit_s: int | None = None,
    starts: int | None = None,
    state: ChainState = ChainState.ACTIVE,
    at_risk: ChainRisk | None = None,
    user: str = "alice",
) -> ChainId:
    chain_id = ChainId(f"{name:0<8}")
    chain = make_chain(chain_id, uid=len(user), user=user, state=state, at_risk=at_risk)
    chains.save_chain(tx, cluster_id, chain)
    if starts is not None:
        link = make_link(
            chain_id,
            job_id=sum(map(ord, name)),
            state=LinkState.RUNNING,
            start=starts,
            time_limit_s=limit_s,
        )
        chains.save_link(tx, cluster_id, link)
    return chain_id


def test_risk_goes_before_pauses_and_those_before_the_soonest_end(
    store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        late = add(tx, cluster_id, "late", starts=100, limit_s=900)
        soon = add(tx, cluster_id, "soon", starts=200, limit_s=100)
        never = add(tx, cluster_id, "never", starts=0, limit_s=UNLIMITED)
        unseen = add(tx, cluster_id, "unseen")
        paused = add(tx, cluster_id, "paused", starts=0, limit_s=1, state=ChainState.PAUSED)
        risky = add(
            tx, cluster_id, "risky", starts=0, limit_s=5000, at_risk=ChainRisk(of=Risk.NO_STANDBY)
        )
        add(tx, cluster_id, "over", starts=0, limit_s=1, state=ChainState.FINISHED)
        add(tx, clusters.ensure_cluster(tx, "elsewhere"), "far", starts=0, limit_s=1)
    expected = [
        RankedChain(AT_RISK, 5000, risky),
        RankedChain(PAUSED, 1, paused),
        RankedChain(ORDINARY, 300, soon),
        RankedChain(ORDINARY, 1000, late),
        RankedChain(ORDINARY, NEVER, never),
        RankedChain(ORDINARY, NEVER, unseen),
    ]
    with store.read() as tx:
        assert chain_ranking.list_by_risk(tx, cluster_id, ALL, limit=10) == expected
        for n, place in enumerate(expected):
            rest = chain_ranking.list_by_risk(tx, cluster_id, ALL, after=place, limit=10)
            assert rest == expected[n + 1 :]
        assert chain_ranking.count_by_rank(tx, cluster_id, ALL) == {
            AT_RISK: 1,
            PAUSED: 1,
            ORDINARY: 4,
        }
        found = chain_ranking.list_soonest_ending(tx, cluster_id, ALL, limit=2)
        assert [place.chain_id for place in found] == [soon, late]


def test_the_newest_of_two_running_links_is_what_ends(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        chain_id = add(tx, cluster_id, "twice", starts=0, limit_s=100)
        (first,) = chains.list_links(tx, cluster_id, chain_id)
        for index, limit_s in ((2, 500), (3, None)):
            running = {"state": LinkState.RUNNING, "start": 10, "time_limit_s": limit_s}
            link = make_link(chain_id, index, index, **running)
            chains.save_link(tx, cluster_id, link)
        assert first.get_planned_end() == 100
        (place,) = chain_ranking.list_by_risk(tx, cluster_id, ALL, limit=10)
    assert place.ends == 510


def test_what_was_suspended_ends_later(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        chain_id = add(tx, cluster_id, "twice", starts=0, limit_s=100)
        (link,) = chains.list_links(tx, cluster_id, chain_id)
        for expected, ends in ((5100, 5100), (20, 100)):  # the latter is being preempted
            chains.save_link(tx, cluster_id, replace(link, expected_end=expected))
            (place,) = chain_ranking.list_by_risk(tx, cluster_id, ALL, limit=10)
            assert (
                place.ends
                == chains.list_links(tx, cluster_id, chain_id)[0].get_planned_end()
                == ends
            )


def test_somebody_s_own_are_counted_and_listed_alone(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        mine = add(tx, cluster_id, "mine", user="bo")
        add(tx, cluster_id, "theirs", user="alice")
        for wanted in (RankingFilter(own=OwnRows(uid=2, user="bo")), RankingFilter(user="bo")):
            (place,) = chain_ranking.list_by_risk(tx, cluster_id, wanted, limit=10)
            assert place.chain_id == mine
            assert chain_ranking.count_by_rank(tx, cluster_id, wanted) == {ORDINARY: 1}


def test_a_session_is_found_until_it_is_over_and_goes_then(store: Store, cluster_id: int) -> None:
    token_id = token_of(store, cluster_id, "alice").split("_")[1]
    with store.begin() as tx:
        sessions.add_session(tx, "one", token_id, now=0, expires_at=100)
        assert sessions.find_session_token(tx, "one", now=99) == token_id
        assert sessions.find_session_token(tx, "one", now=100) is None
        assert sessions.find_session_token(tx, "two", now=0) is None
        sessions.add_session(tx, "two", token_id, now=100, expires_at=200)
        assert sessions.find_session_token(tx, "one", now=0) is None, (
            "it was over when the next began"
        )
        sessions.remove_session(tx, "two")
        assert sessions.find_session_token(tx, "two", now=100) is None
