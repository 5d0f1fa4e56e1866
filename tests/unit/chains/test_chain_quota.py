"""A user's chains beyond the limit are left to plain Slurm, and taken up as others end."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.chains import chain_quota
from mirage.chains import link_sync as link_service
from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState, Mark
from mirage.domain.job import Job, JobId
from mirage.errors import TooMany
from tests.support.provision.slurm_jobs import NOW, running, standby

BOB = 1002


def name(n: int) -> ChainId:
    return ChainId(f"chain{n:05}")


def first(n: int, **more: Any) -> Job:
    """The link that runs of chain n: the later, the higher its number."""
    told: dict[str, Any] = {
        "comment": str(Mark(name(n), 1)),
        "job_id": JobId(1000 * n),
        "submit": NOW - 900 + n,
    }
    return running(1, **told | more)


def second(n: int, **more: Any) -> Job:
    told: dict[str, Any] = {"comment": str(Mark(name(n), 2)), "job_id": JobId(1000 * n + 1)}
    return standby(2, **told | more)


def looked(store: Store, *jobs: Job, most: int = 2, a_day: int = 1000) -> set[str]:
    """The chains that are known after a look at these."""
    bounds = chain_quota.ChainQuota(live=most, a_day=a_day)
    with store.begin() as tx:
        link_service.sync_links(
            tx, 1, chain_quota.filter_followed_jobs(tx, 1, jobs, bounds, now=NOW), NOW
        )
    with store.read() as tx:
        return {chain.chain_id for chain in chains.list_chains(tx, 1, limit=100)}


def test_the_oldest_are_followed_until_there_is_room(lab_store: Store) -> None:
    jobs = [job for n in (3, 1, 2) for job in (first(n), second(n))]
    assert looked(lab_store, *jobs) == {name(1), name(2)}
    assert looked(lab_store, *jobs) == {name(1), name(2)}, "and so it stays"
    with lab_store.begin() as tx:
        over = replace(chains.get_chain(tx, 1, name(1)), state=ChainState.FINISHED)
        chains.save_chain(tx, 1, over)
    assert looked(lab_store, *jobs) == {name(1), name(2), name(3)}
    with lab_store.read() as tx:
        assert [link.index for link in chains.list_links(tx, 1, name(3))] == [1, 2]


def test_what_is_followed_stays_so_whatever_the_limit_is_set_to(lab_store: Store) -> None:
    jobs = [first(1), first(2)]
    assert looked(lab_store, *jobs) == {name(1), name(2)}
    with lab_store.read() as tx:
        bounds = chain_quota.ChainQuota(live=1, a_day=100)
        assert chain_quota.filter_followed_jobs(tx, 1, jobs, bounds, now=NOW) == jobs
        chain_quota.check_chain_quota(tx, 1, name(1), 1001, bounds, now=NOW)
        with pytest.raises(TooMany, match="you have 1 chains that have not ended"):
            chain_quota.check_chain_quota(tx, 1, name(9), 1001, bounds, now=NOW)


def test_no_more_chains_begin_in_a_day_than_may_be(lab_store: Store) -> None:
    """Who cancels all of them each minute, and submits others, begins as many as anybody."""
    assert looked(lab_store, first(1), first(2), first(3), most=10, a_day=2) == {name(1), name(2)}
    with lab_store.begin() as tx:
        for n in (1, 2):
            over = replace(chains.get_chain(tx, 1, name(n)), state=ChainState.CANCELLED)
            chains.save_chain(tx, 1, over)
    assert looked(lab_store, first(3), first(4), most=10, a_day=2) == {name(1), name(2)}


def test_each_user_has_a_room_of_their_own(lab_store: Store) -> None:
    theirs = [first(n, uid=BOB, user="bob") for n in (7, 8)]
    assert looked(lab_store, first(1), first(2), first(3), *theirs) == {*map(name, (1, 2, 7, 8))}


def test_jobs_of_no_chain_are_left_as_they_are(lab_store: Store) -> None:
    other = running(1, comment="", job_id=JobId(5))
    with lab_store.read() as tx:
        bounds = chain_quota.ChainQuota(live=1, a_day=100)
        found = chain_quota.filter_followed_jobs(
            tx, 1, [other, first(1), first(2)], bounds, now=NOW
        )
        assert found == [other, first(1)]
