"""Writes by people whom a real munged vouches for, the wrapped sbatch among them."""

import ast
import os
import pwd
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from mirage.config.settings import AuthSettings
from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.callers.request_signing import build_signed_text, build_unnamed_text
from mirage.domain.chain import ChainId
from mirage.errors import NotFound
from mirage.slurm.clients.auth import munge as real_munge
from mirage.web.api.app import ApiContext
from mirage.web.shared import dependencies
from tests.support.api.running import CHAIN, CLUSTER, Client, Stage
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.forger import as_root, forging
from tests.support.slurm_plugin.prepared import PATIENTLY

pytestmark = pytest.mark.usefixtures("munge")

PATH = "/api/v1/chains"
BODY = b'{"chain_id": "k3v9x2m7q1zt", "job_id": 101, "links": 8}'


@pytest.fixture
def client(client_with_munge: Client) -> Client:
    return client_with_munge


def register(client: Client, chain_id: str, **more: str) -> str:
    """What the wrapped sbatch's own code says, in a process of its own as always; it is patient."""
    environment = os.environ | {"MIRAGE_URL": client.url, "PYTHONPATH": str(PLUGIN)}
    environment |= {"MIRAGE_CLUSTER_NAME": CLUSTER} | more
    done = subprocess.run(
        [sys.executable, "-B", "-c", _REGISTER, chain_id],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


_REGISTER = f"""
{PATIENTLY}
import os, sys
from mirage_slurm.client.request import Unreachable
from mirage_slurm.wrapper import registration, settings
asked = settings.Settings({{"chain": "8", "overlap-price": "0.25"}})
try:
    registration.register_chain(sys.argv[1], 101, asked, dict(os.environ))
except Unreachable as error:
    print(error)
"""


def post(client: Client, credential: str, body: bytes = BODY) -> int:
    headers = {"Authorization": f"MUNGE {credential}"}
    return client.post(PATH, body, headers=headers).status_code


def credential(body: bytes = BODY, path: str = PATH) -> str:
    return real_munge.create_credential(build_signed_text("POST", path, body, CLUSTER))


def test_the_maker_of_the_credential_owns_the_chain(client: Client, store: Store) -> None:
    assert post(client, credential()) == 201
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(CHAIN))
    assert (chain.uid, chain.user) == (os.geteuid(), pwd.getpwuid(os.geteuid()).pw_name)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_another_user_is_another_user(client: Client, store: Store, munge: Path) -> None:
    made = subprocess.run(
        [munge / "munge"],
        input=build_signed_text("POST", PATH, BODY, CLUSTER).encode(),
        user="nobody",
        capture_output=True,
        check=True,
    )
    assert post(client, made.stdout.decode().strip()) == 201
    with store.read() as tx:
        assert chains.get_chain(tx, 1, ChainId(CHAIN)).user == "nobody"


def test_a_credential_is_good_for_one_request(client: Client) -> None:
    made = credential()
    assert [post(client, made), post(client, made)] == [201, 401]


def test_a_credential_is_for_its_own_request(client: Client) -> None:
    assert post(client, credential(body=b"{}")) == 401
    assert post(client, credential(path="/api/v1/kill")) == 401


@pytest.mark.parametrize("bad", ["MUNGE:AAAA:", "MUNGE:AwQDAAB=:", "; rm -rf /", "A" * 9000])
def test_what_is_no_credential_is_refused(client: Client, bad: str) -> None:
    assert post(client, bad) == 401


def test_the_wrapped_sbatch_registers_its_chain(client: Client, store: Store) -> None:
    for _ in range(2):  # a repeat is answered as the first
        assert register(client, CHAIN) == ""
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(CHAIN))
    assert (chain.uid, chain.links_planned, chain.overlap_price) == (os.geteuid(), 8, 0.25)


def test_the_wrapped_sbatch_is_told_no(client: Client) -> None:
    assert register(client, "UPPER").startswith("422: ")


@pytest.mark.parametrize(
    ("cluster", "service", "why"),
    [
        ("gpu2", "mirage", "was made for another service (gpu2 mirage)"),
        ("lab", "slurmrestd", "was made for another service (lab slurmrestd)"),
        ("lab\x1b[2J", "mirage", "was made for another service (of no name)"),
        ("", "", "names no cluster: its client is older than this service"),
    ],
)
def test_a_credential_for_another_service_is_refused_here(
    client: Client, cluster: str, service: str, why: str
) -> None:
    held = f"{build_unnamed_text('POST', PATH, BODY)} {cluster} {service}".rstrip()
    answer = client.post(
        PATH, BODY, headers={"Authorization": f"MUNGE {real_munge.create_credential(held)}"}
    )
    assert (answer.status_code, answer.json()["detail"]) == (401, f"the MUNGE credential {why}")


@as_root
def test_what_a_service_was_told_is_good_at_no_other(client: Client, store: Store) -> None:
    """The wrapper speaks to a service of cluster gpu2, whose admin sends it on to this one."""
    with forging(uid=os.geteuid()) as elsewhere:
        register(replace(client, url=elsewhere.url), CHAIN, MIRAGE_CLUSTER_NAME="gpu2")
        request = ast.literal_eval(elsewhere.read_requests())
    head, _, body = request.partition(b"\r\n\r\n")
    (line,) = (line for line in head.split(b"\r\n") if line.startswith(b"Authorization: "))
    assert post(client, line.decode().rpartition(" ")[2], body) == 401
    with store.read() as tx, pytest.raises(NotFound):
        chains.get_chain(tx, 1, ChainId(CHAIN))


def test_older_plugins_are_served_what_they_ask_until_the_site_says_no_more(
    stage: Stage, context: ApiContext
) -> None:
    """They register, ask for the next link and tell of ends; nothing else, and the log names who
    sends them. By default of the settings; a site that has renewed its plugins closes it."""

    def asked(client: Client, method: str, path: str, body: bytes = b"") -> int:
        made = real_munge.create_credential(build_unnamed_text(method, path, body))
        headers = {"Authorization": f"MUNGE {made}", "Content-Type": "application/json"}
        return client.raw(method, path, headers=headers, content=body).status_code

    me = pwd.getpwuid(os.geteuid()).pw_name
    who = replace(context, identify=real_munge.authenticate_caller, pushers=(me,), admins=())
    dependencies._warn_of_older_plugin.cache_clear()
    with (
        structlog.testing.capture_logs() as log,
        stage.serving(replace(who, munge_without_cluster=True)) as client,
    ):
        assert asked(client, "POST", PATH, BODY) == 201
        assert asked(client, "GET", f"{PATH}/{CHAIN}/next") == 200
        assert asked(client, "POST", "/api/v1/completions", b'{"job_id": 7}') == 202
        assert asked(client, "POST", f"{PATH}/{CHAIN}/pause") == 401
        assert asked(client, "GET", PATH) == 401
    told = [line for line in log if "names no cluster: update slurm_plugin" in line["event"]]
    assert [line["user"] for line in told] == [me], "once, however often"
    with stage.serving(who) as client:
        assert asked(client, "POST", PATH, BODY) == 401
        assert asked(client, "GET", f"{PATH}/{CHAIN}/next") == 401
    assert AuthSettings().munge_without_cluster
