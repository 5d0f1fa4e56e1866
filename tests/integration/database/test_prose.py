"""What release 0.1.0 kept as sentences and in the audit is read into columns by the upgrade."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import bindparam, text
from sqlalchemy.types import JSON

from mirage.database.chains import chains, decisions
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.domain.chain_cause import (
    Actor,
    Cause,
    ChainRisk,
    Reason,
    Risk,
    build_mirage_cause,
    build_user_cause,
)
from mirage.domain.job import JobId
from tests.support.paths import MIGRATIONS

RELEASE = "0120"
CHAIN = ChainId("abcdefgh")
GOES_ON = f"; `mirage chain resume {CHAIN}` goes on"


def keep(tx: Transaction, state: str, note: str, at_risk: str = "", user: str = "alice") -> None:
    """A chain's row as 0.1.0 wrote it, and its second link."""
    tx.execute(text("INSERT INTO clusters (id, name) VALUES (1, 'lab')"))
    tx.execute(
        text(
            'INSERT INTO chains (chain_id, cluster_id, uid, "user", state, overlap_price, '
            "max_overlap_s, presubmit, mode, created_at, note, at_risk) VALUES "
            "(:chain, 1, 1001, :user, :state, 0.5, 14400, 'next', 'standby', 100, :note, :risk)"
        ),
        {"chain": CHAIN, "user": user, "state": state, "note": note, "risk": at_risk},
    )
    tx.execute(
        text(
            'INSERT INTO links (chain_id, "index", cluster_id, job_id, submit, state, position, '
            "partition, account, nodes, seen_at, reason, hindered) VALUES "
            "(:chain, 2, 1, 12, 100, 'pending', 'held', 'gpu', 'ml', 1, 100, '', '')"
        ),
        {"chain": CHAIN},
    )


def said(tx: Transaction, at: int, event: str, actor: str = "mirage", **more: Any) -> None:
    insert = text(
        "INSERT INTO audit (cluster_id, at, actor, event, chain_id, job_id, detail) "
        "VALUES (1, :at, :actor, :event, :chain, :job, :detail)"
    ).bindparams(bindparam("detail", type_=JSON))
    row = {"chain": CHAIN, "job": None, "detail": {}} | more
    tx.execute(insert, {"at": at, "actor": actor, "event": event} | row)


def upgraded(url: str) -> Chain:
    schema_migrations.upgrade_schema(url, MIGRATIONS)
    with closing(Store(url)) as store, store.read() as tx:
        return chains.get_chain(tx, 1, CHAIN)


def of_mirage(state: str, note: str, reason: Reason, *about: Any) -> tuple[str, str, Cause]:
    return state, note, build_mirage_cause(reason, *about)


PAUSE = "paused: the standby for link 2 (job 12) is gone: CANCELLED, as was the one before it"
AT_ONCE = f"paused: its links failed at once; `mirage-link resume {CHAIN}` goes on"
STATES: Sequence[tuple[str, str, Cause | None]] = (
    ("active", "", None),
    ("active", "resumed by alice", None),
    ("paused", "paused by alice", build_user_cause("alice")),
    ("paused", "paused by paused: bob", build_user_cause("paused: bob")),
    ("cancelled", "cancelled by root", build_user_cause("root")),
    of_mirage(
        "paused",
        f"paused: 3 links in a row failed within 10 minutes{GOES_ON}",
        Reason.FAILED_FAST,
    ),
    of_mirage(
        "paused", f"paused: 5 links in a row ran for less than a minute{GOES_ON}", Reason.BRIEF
    ),
    of_mirage("paused", AT_ONCE, Reason.TURNED_AWAY),
    of_mirage("paused", PAUSE, Reason.STANDBY_GONE, 2, JobId(12), "CANCELLED"),
    of_mirage("paused", "paused: by a fork", Reason.UNRECORDED, None, None, "by a fork"),
    ("paused", "", Cause(actor=Actor.USER, reason=Reason.UNRECORDED)),
    of_mirage("cancelled", "cancelled before it started", Reason.NEVER_STARTED),
    of_mirage("cancelled", "link 2 was cancelled", Reason.LINK_CANCELLED, 2),
    of_mirage("failed", "Slurm has never shown a job of it", Reason.NEVER_SEEN),
    of_mirage("failed", "ended with link 4, NODE_FAIL", Reason.LINK_ENDED, 4, None, "NODE_FAIL"),
    of_mirage("finished", "all 8 links ran", Reason.ALL_LINKS_RAN, 8),
    of_mirage("finished", "its links ran for 1.5 h in all", Reason.TOTAL_RAN, None, None, "5400"),
    of_mirage("finished", "ended with link 4, COMPLETED", Reason.LINK_ENDED, 4, None, "COMPLETED"),
)


@pytest.mark.parametrize(("state", "note", "cause"), STATES)
def test_who_and_why_are_read_from_the_sentence(
    empty_database_url: str, state: str, note: str, cause: Cause | None
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, RELEASE)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        keep(tx, state, note)
    found = upgraded(empty_database_url)
    assert (found.state, found.cause, found.at_risk) == (ChainState(state), cause, None)


RISKS = (
    (
        "NoStandby",
        "at risk: no standby stands behind link 1",
        ChainRisk(of=Risk.NO_STANDBY, link=1),
    ),
    (
        "StandbyVanished",
        "at risk: the standby for link 2 (job 12) is gone: CANCELLED",
        ChainRisk(of=Risk.VANISHED, link=2, job_id=JobId(12), detail="CANCELLED"),
    ),
    (
        "LinkUnknown",
        "at risk: Slurm does not know link 2 any more",
        ChainRisk(of=Risk.UNKNOWN, link=2),
    ),
    (
        "SubmitRefused",
        "at risk: Slurm refuses link 2: sbatch: error: link 7 (job 9) is gone: no",
        ChainRisk(of=Risk.REFUSED, link=2, detail="sbatch: error: link 7 (job 9) is gone: no"),
    ),
    (
        "JobHeldAdmin",
        "at risk: link 2 (job 12) waits: an admin holds it",
        ChainRisk(of=Risk.HINDERED, link=2, job_id=JobId(12), detail="JobHeldAdmin"),
    ),
    ("Maintenance", "", ChainRisk(of=Risk.HINDERED, detail="Maintenance")),
)


@pytest.mark.parametrize(("word", "note", "risk"), RISKS)
def test_what_it_is_at_risk_of_is_read_from_the_sentence(
    empty_database_url: str, word: str, note: str, risk: ChainRisk
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, RELEASE)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        keep(tx, "active", note, word)
    found = upgraded(empty_database_url)
    assert (found.cause, found.at_risk, risk.word) == (None, risk, word)


def test_what_was_read_from_the_audit_is_copied(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, RELEASE)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        keep(tx, "active", "")
        tx.execute(
            text(
                'INSERT INTO decisions (id, cluster_id, chain_id, "index", at, last_at, repeats, '
                "mode, policy, action, reason, samples, effect, error, inputs) VALUES "
                "(1, 1, :chain, 3, 500, 500, 0, 'act', 'p', 'submit', '', 0, 'intended', '', '{}')"
            ),
            {"chain": CHAIN},
        )
        said(tx, 90, "registered", "mallory", job=10)
        said(tx, 100, "registered", "alice", job=11)
        said(tx, 200, "asked: resumed", "alice")
        said(tx, 300, "asked: resumed", "root")
        said(tx, 310, "replaced", job=12, detail={"link": 2, "before": 9})
        said(tx, 320, "replaced", job=19, detail={"link": 7, "before": 18})
        said(tx, 400, "demoted to shadow", chain=None)
        said(tx, 501, "submit: done")
    found = upgraded(empty_database_url)
    assert (found.registered_job, found.resumed_at) == (JobId(11), 300)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        (link,) = chains.list_links(tx, 1, CHAIN)
        (intended,) = decisions.list_intended(tx, 1)
        assert clusters.read_demoted_at(tx, 1) == 400
    assert (link.replaced_at, intended.submitted_at) == (310, 501)
