"""Which holds are Mirage's: written down, and told of an earlier version's audit by the upgrade."""

from collections.abc import Iterable
from contextlib import closing

import pytest

from mirage.database.chains import chains, orders
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState, Link, LinkState
from mirage.domain.job import JobId
from tests.support.chains import make_chain
from tests.support.older_schema import take_back
from tests.support.paths import MIGRATIONS
from tests.support.provision.slurm_jobs import job

CHAIN = ChainId("abcdefgh")
JOB, OTHER = JobId(11), JobId(12)
SUBMIT = 100
WAITS = Link(chain_id=CHAIN, index=1, job_id=JOB, submit=SUBMIT)


def said(
    event: str, at: int = 200, *, actor: str = "mirage", job_id: JobId | None = JOB
) -> AuditEntry:
    return AuditEntry(at=at, actor=actor, event=event, chain_id=CHAIN, job_id=job_id)


def keep(store: Store, link: Link, told: Iterable[AuditEntry] = (), state: str = "paused") -> int:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        chains.save_chain(tx, cluster_id, make_chain(CHAIN, state=ChainState(state)))
        chains.save_link(tx, cluster_id, link)
        for entry in told:
            audit.write_entry(tx, cluster_id, entry)
    return cluster_id


def held_at(store: Store) -> int | None:
    with store.read() as tx:
        (link,) = chains.list_links(tx, 1, CHAIN)
    return link.held_at


def test_a_hold_is_of_one_run_of_one_job(store: Store) -> None:
    cluster_id = keep(store, WAITS)
    ours, again, other = (
        job(1, submit=SUBMIT),
        job(1, submit=SUBMIT + 1),
        job(2, submit=SUBMIT),
    )
    with store.begin() as tx:
        for each in (again, other):
            orders.record_hold(tx, cluster_id, each, 150)
            assert not orders.is_held_by_mirage(tx, cluster_id, each)
        assert not orders.is_held_by_mirage(tx, cluster_id, ours)
        orders.record_hold(tx, cluster_id, ours, 150)
        assert orders.is_held_by_mirage(tx, cluster_id, ours)
        assert not orders.is_held_by_mirage(tx, cluster_id + 1, ours)
    assert held_at(store) == 150
    with store.begin() as tx:
        orders.record_hold(tx, cluster_id, ours, None)
        assert not orders.is_held_by_mirage(tx, cluster_id, ours)


ASKED = said("asked: resumed", 300, actor="alice", job_id=None)
ENDED = Link(
    chain_id=CHAIN, index=1, job_id=JOB, submit=SUBMIT, state=LinkState.ENDED, start=250, end=300
)


@pytest.mark.parametrize(
    ("state", "link", "told", "ours"),
    [
        ("paused", WAITS, [said("suspend")], 200),
        ("paused", WAITS, [said("resume", 150), said("suspend"), ASKED], 200),
        ("paused", WAITS, [said("suspend", 150), said("resume", 160), said("suspend")], 200),
        ("active", WAITS, [said("suspend")], None),
        ("failed", WAITS, [said("suspend")], None),
        ("paused", WAITS, [said("suspend"), said("resume", 300)], None),
        ("paused", WAITS, [said("suspend"), said("suspend: refused", 201)], None),
        ("paused", WAITS, [said("suspend"), said("resume: refused", 300)], None),
        ("paused", WAITS, [said("suspend", SUBMIT - 1)], None),
        ("paused", WAITS, [said("suspend", actor="alice")], None),
        ("paused", WAITS, [said("suspend", job_id=OTHER)], None),
        ("paused", WAITS, [], None),
        ("paused", ENDED, [said("suspend")], None),
    ],
)
def test_of_holds_of_before_those_are_mirages_that_its_last_word_tells_of(
    empty_database_url: str, state: str, link: Link, told: list[AuditEntry], ours: int | None
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store:
        keep(store, link, told, state)
    take_back(empty_database_url, "0100")
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store:
        assert held_at(store) == ours
