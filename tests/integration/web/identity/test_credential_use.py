"""A MUNGE credential counts once, also where each host has a munged of its own."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from mirage.database.access import idempotency
from mirage.database.schema.engine import Store, Transaction
from mirage.database.schema.tables import idempotency_keys
from mirage.domain.callers.caller import Caller
from mirage.errors import NotIdentified, TooMany
from mirage.service import wiring
from mirage.slurm.clients.auth import munge as real_munge
from mirage.slurm.clients.auth.sack import SackVerifier
from mirage.web.identity.credential_use import (
    CLOCKS_APART_S,
    UsedCredentials,
    claim_in_database,
    refuse_second_use,
)
from tests.support.fixtures.munge import run_munged
from tests.support.fixtures.sack import FakeSackd

NOW = 1_800_000_000
PAYLOAD = "POST /api/v1/chains/k3v9x2m7q1zt/cancel 0 lab mirage"


@pytest.fixture(scope="module")
def other_host(munge_commands: Path) -> Iterator[Path]:
    """The commands of a second host: its munged has the cluster's key, and has read nothing."""
    with run_munged((munge_commands.parent / "key").read_bytes()) as commands:
        yield commands


def build_identify(store: Store, of_user: int = 100) -> Callable[..., Caller]:
    used = UsedCredentials(time.time, of_user=of_user)
    claim_use = claim_in_database(store, time.time, used)
    return refuse_second_use(real_munge.verify_credential, claim_use)


def ask(store: Store, credential: str, payload: str = PAYLOAD) -> Caller:
    """As a service that has just begun asks: it remembers nothing itself."""
    return build_identify(store)(credential, payload)


def test_what_one_host_accepted_the_other_refuses(
    store: Store, munge: Path, other_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, fresh = (real_munge.create_credential(PAYLOAD) for _ in range(2))
    assert ask(store, used).uid == os.geteuid()
    monkeypatch.setenv("PATH", f"{other_host}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(NotIdentified, match="was used before"):
        ask(store, used)
    assert ask(store, fresh).uid == os.geteuid()


def test_a_second_spelling_of_a_used_credential_is_no_new_one(
    store: Store, munge: Path, other_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = real_munge.create_credential(PAYLOAD)
    ask(store, used)
    monkeypatch.setenv("PATH", f"{other_host}{os.pathsep}{os.environ['PATH']}")
    for spelled in (used[:-1] + "=:", used[:-1] + "====:", used[:-1] + "QQ==:"):
        with pytest.raises(NotIdentified):
            ask(store, spelled)


def test_used_credentials_go_after_their_life_and_push_out_no_key_of_a_request(
    store: Store, cluster_id: int
) -> None:
    def claim(digest: str, now: int) -> bool:
        return idempotency.claim_credential(tx, 7, digest, kept_until=now + 600, now=now)

    with store.begin() as tx:
        assert idempotency.claim_key(tx, cluster_id, 7, "k", fingerprint="f", now=NOW)
        for n in range(2 * idempotency.MOST_KEYS_PER_USER):
            assert claim(f"digest {n}", NOW)
        assert not claim("digest 0", NOW + 600)
        assert idempotency.find_fingerprint(tx, cluster_id, 7, "k", now=NOW) == "f"
        assert claim("digest 0", NOW + 601)
        assert count_rows(tx) == 2, "the key and the newest"
        idempotency.forget_expired_keys(tx, NOW + 1202)
        assert count_rows(tx) == 1, "the key"


def count_rows(tx: Transaction) -> int:
    return tx.scalar(select(func.count()).select_from(idempotency_keys)) or 0


def test_a_credential_of_munge_is_remembered_until_no_host_takes_it(
    store: Store, munge: Path
) -> None:
    before = int(time.time())
    ask(store, real_munge.create_credential(PAYLOAD))
    with store.read() as tx:
        (kept_until,) = tx.scalars(select(idempotency_keys.c.at))
    assert before <= kept_until - 300 - CLOCKS_APART_S <= int(time.time()), "munged gives 300 s"


def test_a_user_fills_no_database_with_used_credentials_of_munge(store: Store, munge: Path) -> None:
    identify = build_identify(store, of_user=1)
    identify(real_munge.create_credential(PAYLOAD), PAYLOAD)
    with pytest.raises(TooMany):
        identify(real_munge.create_credential(PAYLOAD), PAYLOAD)
    with store.read() as tx:
        assert count_rows(tx) == 1


def test_a_credential_of_slurms_socket_counts_once_for_all_services_of_the_database(
    store: Store, sackd: FakeSackd
) -> None:
    first, second = (build_sack_verifier(store) for _ in range(2))
    used, fresh = sackd.mint(PAYLOAD), sackd.mint(PAYLOAD + " 00112233aabbccdd")
    assert first.authenticate_caller(used, PAYLOAD).via == "sack"
    for service in (first, second):
        with pytest.raises(NotIdentified, match="was used before"):
            service.authenticate_caller(used, PAYLOAD)
    assert second.authenticate_caller(fresh, PAYLOAD).uid == os.geteuid()


def build_sack_verifier(store: Store, of_user: int = 100) -> SackVerifier:
    used = UsedCredentials(time.time, of_user=of_user)
    return wiring.build_sack_verifier("lab", claim_in_database(store, time.time, used))


def test_a_user_fills_no_database_with_used_credentials(store: Store, sackd: FakeSackd) -> None:
    verifier = build_sack_verifier(store, of_user=1)
    verifier.authenticate_caller(sackd.mint(PAYLOAD), PAYLOAD)
    with pytest.raises(TooMany):
        verifier.authenticate_caller(sackd.mint(PAYLOAD + " 00112233aabbccdd"), PAYLOAD)
    with store.read() as tx:
        assert count_rows(tx) == 1
