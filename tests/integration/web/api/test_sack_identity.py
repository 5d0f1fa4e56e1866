"""Requests of people for whom Slurm's own socket vouches, the wrapped sbatch among them."""

import os
import pwd
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller
from mirage.domain.callers.request_signing import build_signed_text
from mirage.domain.chain import ChainId
from mirage.service import wiring
from mirage.web.api.app import ApiContext
from mirage.web.identity.credential_use import UsedCredentials
from tests.integration.web.api.test_munge_identity import BODY, PATH, register
from tests.support.api.running import CHAIN, CLUSTER, Client, Stage
from tests.support.cli.in_process import run_in_process
from tests.support.fixtures.sack import FakeSackd

ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def client(stage: Stage, context: ApiContext, sackd: FakeSackd) -> Iterator[Client]:
    with stage.serving(replace(context, identify_sack=build_reader(), admins=())) as running:
        yield running


def build_reader(of_user: int = 100) -> Callable[[str, str], Caller]:
    used = UsedCredentials(time.time, of_user=of_user)
    return wiring.build_sack_verifier(CLUSTER, used.claim_use).authenticate_caller


def post(client: Client, credential: str, body: bytes = BODY, path: str = PATH) -> int:
    headers = {"Authorization": f"SACK {credential}"}
    return client.post(path, body, headers=headers).status_code


def test_the_wrapped_sbatch_registers_its_chain(
    client: Client, store: Store, sackd: FakeSackd
) -> None:
    for _ in range(2):  # a repeat of the same second has a credential of its own
        assert register(client, CHAIN, **sackd.environ) == ""
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(CHAIN))
    assert (chain.uid, chain.user, chain.links_planned) == (os.geteuid(), ME, 8)
    assert len(sackd.payloads) == 2


def test_the_command_line_uses_the_socket_as_well(client: Client, sackd: FakeSackd) -> None:
    register(client, CHAIN, **sackd.environ)
    more = {"MIRAGE_CLUSTER_NAME": CLUSTER, "PATH": "/nowhere"} | sackd.environ
    answer = run_in_process("chain", "pause", CHAIN, url=client.url, **more)
    assert (answer.code, answer.err) == (0, "")
    sackd.answers = False
    sackd.path.unlink()
    answer = run_in_process("chain", "resume", CHAIN, url=client.url, **more)
    assert answer.code == 3
    assert "no daemon of Slurm listens on" in answer.err


def test_a_credential_is_good_for_one_request(client: Client, sackd: FakeSackd) -> None:
    made = sackd.mint(build_signed_text("POST", PATH, BODY, CLUSTER))
    assert [post(client, made), post(client, made)] == [201, 401]
    other = sackd.mint(build_signed_text("POST", PATH, BODY, CLUSTER) + " 00112233aabbccdd")
    assert post(client, other, b"{}") == 401
    assert post(client, other, BODY, f"{PATH}/{CHAIN}/pause") == 401


def test_a_refusal_names_its_maker_in_the_audit_and_holds_no_credential(
    client: Client, store: Store, sackd: FakeSackd
) -> None:
    made = sackd.mint(build_signed_text("POST", PATH, BODY, "gpu2"))
    assert post(client, made) == 401
    with store.read() as tx:
        (entry,) = audit.list_entries(tx, 1, limit=5)
    assert (entry.actor, entry.event) == (ME, "refused: not identified")
    assert entry.detail["via"] == "sack"
    assert "was made for another service (gpu2 mirage)" in str(entry.detail["why"])
    assert made not in str(entry)


def test_who_uses_too_many_credentials_at_once_is_told_when_to_come_back(
    stage: Stage, context: ApiContext, sackd: FakeSackd
) -> None:
    with stage.serving(replace(context, identify_sack=build_reader(of_user=2))) as client:
        codes = []
        for number in range(3):
            text = f"{build_signed_text('GET', PATH, b'', CLUSTER)} {number:016x}"
            headers = {"Authorization": f"SACK {sackd.mint(text)}"}
            answer = client.raw("GET", PATH, headers=headers)
            codes.append(answer.status_code)
        assert codes == [200, 200, 429]
        assert 0 < int(answer.headers["Retry-After"]) <= 60


def test_without_such_a_reader_the_credential_is_refused(
    stage: Stage, context: ApiContext, sackd: FakeSackd
) -> None:
    with stage.serving(context) as client:
        made = sackd.mint(build_signed_text("POST", PATH, BODY, CLUSTER))
        assert post(client, made) == 401
