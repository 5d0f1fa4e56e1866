"""Bearer tokens in the database, on both engines."""

import hashlib
from dataclasses import replace

import pytest
from sqlalchemy import Table, select

from mirage.database.access import tokens
from mirage.database.access.tokens import Token
from mirage.database.events import audit
from mirage.database.operations import clusters
from mirage.database.schema import tables
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.callers.caller import NOBODY_UID, Caller, Role
from mirage.errors import InputError, NotFound, NotIdentified
from mirage.web.identity import tokens as subject

NOW = 1_800_000_000
GRAFANA = Token(
    name="grafana",
    role=Role.VIEWER,
    read_only=True,
    created_at=NOW,
    created_by="root",
    expires_at=NOW + 3600,
)
ALICE = replace(GRAFANA, name="laptop", role=Role.USER, user="alice", uid=1001, read_only=False)


def made(store: Store, cluster_id: int, asked: Token) -> tuple[Token, str]:
    with store.begin() as tx:
        return subject.create_token(tx, asked, cluster_id=cluster_id)


def who(store: Store, cluster_id: int, text: str, *, now: int = NOW) -> Caller:
    with store.read() as tx:
        return subject.authenticate_token(tx, text, cluster_id=cluster_id, now=now)


def test_a_token_says_whose_it_is_and_what_it_allows(store: Store, cluster_id: int) -> None:
    token, text = made(store, cluster_id, ALICE)
    via = f"token {token.token_id}"
    assert who(store, cluster_id, text) == Caller(1001, "alice", via=via, role=Role.USER)
    token, text = made(store, cluster_id, GRAFANA)
    found = who(store, cluster_id, text)
    assert (found.uid, found.user) == (NOBODY_UID, "token grafana")
    assert (found.role, found.read_only) == (Role.VIEWER, True)


def test_only_a_hash_of_the_secret_is_kept(store: Store, cluster_id: int) -> None:
    _, text = made(store, cluster_id, ALICE)
    secret = text[-43:]
    with store.read() as tx:
        kept = [str(row) for table in (tables.tokens, tables.audit) for row in rows(tx, table)]
    assert len(secret) == 43
    assert not any(secret in row for row in kept)
    assert any(hashlib.sha256(secret.encode()).hexdigest() in row for row in kept)


def rows(tx: Transaction, table: Table) -> list[object]:
    return list(tx.execute(select(table)))


def test_another_secret_is_no_token(store: Store, cluster_id: int) -> None:
    _, text = made(store, cluster_id, ALICE)
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    for wrong in (other, text + "A", text[:-1], "mirage_", "mirage_000000000000_" + "A" * 43, ""):
        with pytest.raises(NotIdentified, match="there is no such token"):
            who(store, cluster_id, wrong)


def test_it_ends_by_date_by_word_and_elsewhere(store: Store, cluster_id: int) -> None:
    token, text = made(store, cluster_id, replace(ALICE, cluster_id=cluster_id))
    with pytest.raises(NotIdentified, match="has expired") as caught:
        who(store, cluster_id, text, now=NOW + 3600)
    assert caught.value.claimant == f"token {token.token_id}"
    with store.begin() as tx:
        elsewhere = clusters.ensure_cluster(tx, "elsewhere")
    with pytest.raises(NotIdentified, match="for another cluster"):
        who(store, elsewhere, text)
    with store.begin() as tx:
        for _ in range(2):
            ended = subject.revoke_token(
                tx, token.token_id, cluster_id=cluster_id, now=NOW + 1, actor="root"
            )
    assert ended.revoked_at == NOW + 1
    with pytest.raises(NotIdentified, match="was revoked"):
        who(store, cluster_id, text)


def test_making_and_ending_one_is_audited(store: Store, cluster_id: int) -> None:
    token, text = made(store, cluster_id, ALICE)
    with store.begin() as tx:
        subject.revoke_token(tx, token.token_id, cluster_id=cluster_id, now=NOW, actor="ada")
        entries = audit.list_entries(tx, cluster_id)
    assert [(e.event, e.actor) for e in entries] == [
        ("token revoked", "ada"),
        ("token created", "root"),
    ]
    assert entries[0].detail["token"] == token.token_id
    assert not any(text[-43:] in str(entry) for entry in entries)


def test_lists_are_newest_first(store: Store, cluster_id: int) -> None:
    first, _ = made(store, cluster_id, GRAFANA)
    second, _ = made(store, cluster_id, replace(ALICE, created_at=NOW + 1))
    with store.read() as tx:
        assert tokens.list_tokens(tx) == [second, first]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "1 to 64 characters"),
        ({"name": "a\x1b[2J"}, "no control characters"),
        ({"role": Role.USER}, "belongs to a user: give --user"),
        ({"expires_at": NOW}, "at most 366 days"),
        ({"expires_at": NOW + 367 * 86400}, "at most 366 days"),
    ],
)
def test_what_makes_no_token(
    store: Store, cluster_id: int, change: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        made(store, cluster_id, replace(GRAFANA, **change))  # type: ignore[arg-type]


def test_revoking_what_is_not_there(store: Store, cluster_id: int) -> None:
    with store.begin() as tx, pytest.raises(NotFound, match="there is no token 00"):
        subject.revoke_token(tx, "00", cluster_id=cluster_id, now=NOW, actor="root")
