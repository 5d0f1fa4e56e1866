"""The header Host: the service answers to its own names and to addresses, and to no other name."""

import socket
from dataclasses import replace

import pytest

from mirage.web.api.app import ApiContext
from mirage.web.shared.allowed_hosts import build_hosts
from tests.support.api.running import Client, Stage

PATHS = ["/healthz", "/metrics", "/api/v1/chains", "/api/v1/events?for_s=0", "/nowhere"]
ORIGINS = ("https://hpc.example.org", "http://tunnel.example.org:8080")


def status(client: Client, path: str, host: str) -> int:
    return client.raw("GET", path, headers={"Host": host}).status_code


@pytest.mark.parametrize("path", PATHS)
def test_a_name_that_somebody_has_pointed_here_reads_nothing(client: Client, path: str) -> None:
    answer = client.raw("GET", path, headers={"Host": "evil.example:6480"})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == "/problems/misdirected"
    assert told["detail"] == (
        "this service does not answer to the name 'evil.example:6480': "
        "an admin can add the name to service.origins"
    )
    assert told["request_id"] == answer.headers["x-request-id"]
    assert client.get(told["type"]).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1:6480", "10.1.2.3", "[::1]:6480", "[fe80::2]"],
)
def test_loopback_and_addresses_are_answered(client: Client, host: str) -> None:
    """Prometheus asks by address; no name leads a browser to one that it does not show."""
    assert status(client, "/healthz", host) == 200


@pytest.mark.parametrize(
    "host",
    [
        *("localhost.evil.example", "127.0.0.1.evil.example", "evil@localhost", "localhost/evil"),
        *("local host", "[::1", "[evil]", "::1", "127.1.evil", ".", "-", "a:b:c", "\x80"),
    ],
)
def test_what_only_looks_like_one_is_not(client: Client, host: str) -> None:
    assert client.raw("GET", "/healthz", headers={b"Host": host.encode("latin-1")}).status_code in {
        400,
        421,
    }


def test_a_site_s_names_are_answered_and_their_neighbours_are_not(
    stage: Stage, context: ApiContext
) -> None:
    known = build_hosts(("login1", "Login1.Example.Org."), ORIGINS)
    with stage.serving(replace(context, hosts=known)) as client:
        for host in ("hpc.example.org", "HPC.example.org:443", "tunnel.example.org:8080"):
            assert status(client, "/healthz", host) == 200, host
        for host in ("login1:6480", "login1.example.org", "LOCALHOST.:1"):
            assert status(client, "/healthz", host) == 200, host
        for host in ("example.org", "www.hpc.example.org", "login2", "xhpc.example.org"):
            assert status(client, "/healthz", host) == 421, host


def test_a_unix_socket_is_asked_by_any_name(stage: Stage, context: ApiContext) -> None:
    with stage.serving(context), stage.call_by_socket() as http:
        assert http.get("/healthz", headers={"Host": "whatever"}).status_code == 200


def test_a_request_without_a_host_is_no_browser_s(client: Client) -> None:
    """A balancer's probe in HTTP/1.0 has none."""
    address = client.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1]))) as asked:
        asked.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in asked.makefile("rb").readline()


def test_a_problem_below_a_proxy_s_path_leads_to_its_page(
    stage: Stage, context: ApiContext
) -> None:
    with stage.serving(replace(context, root_path="/mirage")) as client:
        told = client.raw("GET", "/mirage/", headers={"Host": "evil.example"}).json()
        assert (told["status"], told["type"]) == (421, "/mirage/problems/misdirected")
