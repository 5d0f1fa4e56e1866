"""Chains, links and hand-overs."""

from dataclasses import replace

import pytest

from mirage.database.chains import chain_counts, chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import (
    Chain,
    ChainId,
    ChainMode,
    ChainState,
    Link,
    LinkState,
    Position,
    Presubmit,
    Style,
)
from mirage.domain.chain_cause import ChainRisk, Reason, Risk, build_mirage_cause
from mirage.domain.job import JobId, JobState
from mirage.errors import NotFound, StoreError
from tests.support.chains import make_chain

FULL = Chain(
    chain_id=ChainId("chain0001"),
    uid=1000,
    user="alice",
    state=ChainState.PAUSED,
    links_planned=8,
    policy="quantile",
    overlap_price=0.25,
    total_s=7 * 86400,
    max_overlap_s=0,
    presubmit=Presubmit.ALL,
    style=Style.SERVE,
    mode=ChainMode.SUBMIT,
    created_at=100,
    cause=build_mirage_cause(Reason.STANDBY_GONE, 2, JobId(12), "CANCELLED"),
    at_risk=ChainRisk(of=Risk.REFUSED, link=3, detail="Job violates accounting/QOS policy"),
    resumed_at=90,
    registered_job=JobId(11),
)
ENDED = Link(
    chain_id=FULL.chain_id,
    index=1,
    job_id=JobId(11),
    submit=100,
    state=LinkState.ENDED,
    position=Position.PINNED,
    partition="gpu",
    account="physics",
    nodes=4,
    time_limit_s=3600,
    eligible=110,
    freed_at=150,
    start=200,
    end=300,
    end_state=JobState.TIMEOUT,
    seen_at=301,
    reason="Priority",
)


def chain_named(name: str, **changes: object) -> Chain:
    return make_chain(name, **{"uid": 1000, **changes})


def put(store: Store, cluster_id: int, chain: Chain, *links: Link) -> None:
    with store.begin() as tx:
        chains.save_chain(tx, cluster_id, chain)
        for link in links:
            chains.save_link(tx, cluster_id, replace(link, chain_id=chain.chain_id))


def pair(
    job_id: int,
    *,
    end: int | None,
    freed_at: int | None,
    start: int | None,
    position: Position = Position.FREE,
) -> list[Link]:
    """A predecessor and its successor."""
    before = replace(ENDED, index=1, job_id=JobId(job_id), end=end)
    after = replace(ENDED, index=2, job_id=JobId(job_id + 1), freed_at=freed_at, start=start)
    return [before, replace(after, position=position)]


def test_chain_comes_back_as_it_went_in(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL)
    with store.read() as tx:
        assert chains.get_chain(tx, cluster_id, FULL.chain_id) == FULL


def test_saving_again_replaces(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL)
    resumed = FULL.move_to(ChainState.ACTIVE)
    put(store, cluster_id, resumed)
    with store.read() as tx:
        assert chains.list_chains(tx, cluster_id) == [resumed]


def test_unknown_chain_is_not_found(store: Store) -> None:
    with store.read() as tx, pytest.raises(NotFound, match="there is no chain nowhere1"):
        chains.get_chain(tx, 1, ChainId("nowhere1"))


def test_live_chains_are_those_not_over(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
    for i, state in enumerate(ChainState):
        put(store, cluster_id, chain_named(f"chain-{state}", state=state, created_at=i))
    put(store, other, chain_named("elsewhere"))
    with store.read() as tx:
        live = [c.state for c in chains.list_live_chains(tx, cluster_id)]
    assert live == [ChainState.ACTIVE, ChainState.PAUSED]


def test_chains_are_filtered(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
    put(store, cluster_id, chain_named("a", uid=0))
    put(store, cluster_id, chain_named("b", state=ChainState.FINISHED))
    put(store, other, chain_named("c"))
    with store.read() as tx:
        assert [c.chain_id for c in chains.list_chains(tx, other)] == ["c"]
        assert [c.chain_id for c in chains.list_chains(tx, cluster_id)] == ["b", "a"]
        assert [c.chain_id for c in chains.list_chains(tx, cluster_id, uid=0)] == ["a"]
        finished = chains.list_chains(tx, cluster_id, state=ChainState.FINISHED)
        assert [c.chain_id for c in finished] == ["b"]


def test_pages_of_chains_follow_each_other(store: Store, cluster_id: int) -> None:
    for name, created_at in {"a": 5, "b": 5, "c": 5, "d": 9, "e": 1}.items():
        put(store, cluster_id, chain_named(name, created_at=created_at))
    seen: list[ChainId] = []
    with store.read() as tx:
        while page := chains.list_chains(tx, cluster_id, after=seen[-1] if seen else None, limit=2):
            seen += [c.chain_id for c in page]
    assert seen == ["d", "c", "b", "a", "e"]


def test_link_comes_back_as_it_went_in(store: Store, cluster_id: int) -> None:
    bare = Link(chain_id=FULL.chain_id, index=2, job_id=JobId(12), submit=101)
    put(store, cluster_id, FULL, bare, ENDED)
    with store.read() as tx:
        assert chains.list_links(tx, cluster_id, FULL.chain_id) == [ENDED, bare]
        assert chains.find_link_of_job(tx, cluster_id, JobId(12), 101) == bare
        assert chains.find_link_of_job(tx, cluster_id, JobId(12), 102) is None


def test_replaced_standby_takes_the_row_over(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL, ENDED)
    replaced = replace(ENDED, job_id=JobId(99), submit=400)
    put(store, cluster_id, FULL, replaced)
    with store.read() as tx:
        assert chains.list_links(tx, cluster_id, FULL.chain_id) == [replaced]


def test_job_is_a_link_of_one_chain_only(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL, ENDED)
    with pytest.raises(StoreError, match="refused a row"):
        put(store, cluster_id, chain_named("other"), ENDED)


def test_reused_job_id_may_be_a_link_again(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL, ENDED)
    put(store, cluster_id, chain_named("other"), replace(ENDED, submit=900))


def test_links_of_many_chains_at_once(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, FULL, replace(ENDED, index=10, job_id=JobId(12)), ENDED)
    put(store, cluster_id, chain_named("bare"))
    ids = [FULL.chain_id, ChainId("bare"), ChainId("unknown")]
    with store.read() as tx:
        found = chains.list_links_by_chain(tx, cluster_id, ids)
        assert chains.list_links_by_chain(tx, cluster_id, []) == {}
    assert [link.index for link in found[FULL.chain_id]] == [1, 10]
    assert found[ChainId("bare")] == found[ChainId("unknown")] == []


def test_handover_waits_count_from_eligibility(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, chain_named("freed"), *pair(10, end=300, freed_at=250, start=310))
    put(store, cluster_id, chain_named("never-freed"), *pair(20, end=300, freed_at=None, start=320))
    put(store, cluster_id, chain_named("freed-late"), *pair(30, end=300, freed_at=315, start=330))
    put(store, cluster_id, chain_named("overlaps"), *pair(40, end=None, freed_at=250, start=340))
    put(store, cluster_id, chain_named("waits"), *pair(50, end=300, freed_at=250, start=None))
    pinned = pair(60, end=300, freed_at=None, start=335, position=Position.PINNED)
    put(store, cluster_id, chain_named("pinned"), *pinned)
    with store.read() as tx:
        waits = chains.read_handover_waits(tx, cluster_id, "gpu", nodes=4, last=100)
        last_two = chains.read_handover_waits(tx, cluster_id, nodes=4, last=2)
    assert waits.start.tolist() == [310, 320, 330, 340]
    assert waits.wait_s.tolist() == [60, 20, 30, 90]
    assert last_two.start.tolist() == [330, 340]
    assert last_two.time_limit_s.tolist() == [3600, 3600]


def test_a_pause_is_no_wait(store: Store, cluster_id: int) -> None:
    """Slurm makes a job eligible anew when a hold is lifted."""
    before, paused = pair(10, end=300, freed_at=250, start=5000)
    put(store, cluster_id, chain_named("paused"), before, replace(paused, eligible=4900))
    with store.read() as tx:
        waits = chains.read_handover_waits(tx, cluster_id, nodes=4, last=1)
    assert waits.wait_s.tolist() == [100]


def test_handover_waits_are_of_the_size_class_and_partition(store: Store, cluster_id: int) -> None:
    for job_id, nodes in ((10, 1), (20, 2), (30, 8), (40, 9)):
        links = [replace(x, nodes=nodes) for x in pair(job_id, end=300, freed_at=250, start=310)]
        put(store, cluster_id, chain_named(f"of{nodes}"), *links)
    with store.read() as tx:
        waits = chains.read_handover_waits(tx, cluster_id, "gpu", nodes=4, last=100)
        assert waits.nodes.tolist() == [2, 8]
        assert len(chains.read_handover_waits(tx, cluster_id, "cpu,gpu", nodes=4, last=100)) == 2
        assert len(chains.read_handover_waits(tx, cluster_id, "cpu", nodes=4, last=100)) == 0
        assert len(chains.read_handover_waits(tx, cluster_id + 1, "gpu", nodes=4, last=100)) == 0


def test_handovers_are_those_complete(store: Store, cluster_id: int) -> None:
    done = pair(10, end=300, freed_at=250, start=310)
    put(store, cluster_id, FULL, *done, replace(ENDED, index=3, job_id=JobId(12), start=None))
    put(store, cluster_id, chain_named("overlaps"), *pair(40, end=None, freed_at=250, start=340))
    put(store, cluster_id, chain_named("waits"), *pair(50, end=300, freed_at=250, start=None))
    with store.read() as tx:
        (found,) = chains.list_handovers(tx, cluster_id)
        assert len(chains.list_handovers(tx, cluster_id, since=310)) == 1
        assert chains.list_handovers(tx, cluster_id, since=311) == []
    assert found == (FULL, *done)
    assert (found.predecessor.end, found.successor.start) == (300, 310)


def test_chains_at_risk_are_counted_by_what_of(store: Store, cluster_id: int) -> None:
    for name, risk, state in (
        ("chain0001", ChainRisk(of=Risk.NO_STANDBY, link=1), ChainState.ACTIVE),
        ("chain0002", ChainRisk(of=Risk.NO_STANDBY, link=2), ChainState.ACTIVE),
        ("chain0003", ChainRisk(of=Risk.HINDERED, detail="BadConstraints"), ChainState.ACTIVE),
        ("chain0004", None, ChainState.ACTIVE),
        ("chain0005", ChainRisk(of=Risk.NO_STANDBY), ChainState.FAILED),
    ):
        put(store, cluster_id, chain_named(name, at_risk=risk, state=state))
    with store.read() as tx:
        assert chain_counts.count_chains_at_risk(tx, cluster_id) == {
            "NoStandby": 2,
            "BadConstraints": 1,
        }


def test_a_hindered_wait_is_no_example_of_waits(store: Store, cluster_id: int) -> None:
    before = replace(ENDED, freed_at=None, hindered="", position=Position.FREE)
    after = replace(before, index=2, job_id=JobId(12), start=320, eligible=300, freed_at=None)
    put(store, cluster_id, chain_named("chain0001"), before, after)
    with store.read() as tx:
        assert len(chains.read_handover_waits(tx, cluster_id, nodes=4, last=9)) == 1
    put(store, cluster_id, chain_named("chain0001"), replace(after, hindered="PartitionDown"))
    with store.read() as tx:
        assert len(chains.read_handover_waits(tx, cluster_id, nodes=4, last=9)) == 0
