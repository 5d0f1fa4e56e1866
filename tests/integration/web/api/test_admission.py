"""Who is let in, on real sockets: caps by client and in all, how long each part may take, and how
much is kept of it."""

import asyncio
import os
import pwd
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs

from mirage.database.schema.engine import Store
from mirage.errors import InputError
from mirage.web.api.app import ApiContext, create_app
from mirage.web.api.streaming import change_feed
from mirage.web.shared.auth import unix_peer
from mirage.web.shared.auth.socket_owner import SocketOwners, TcpEndpoint
from mirage.web.shared.auth.unix_peer import ClientTimeouts
from mirage.web.shared.server import admission
from mirage.web.shared.server.admission import USUAL_PROXIES, Admission, resolve_proxies
from mirage.web.shared.server.listening import Server
from tests.integration.web.api.test_events import bearer
from tests.support import patient
from tests.support.api.streams import PATH, listening
from tests.support.slurm_plugin.forger import as_root

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 64 * 2**20
"""Bytes: more than two sockets hold."""
LONG = ClientTimeouts(head_s=600, body_s=600, taking_s=600)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with who asks, or at length."""
    client = scope["state"].get("client")
    body = bytes(LARGE) if scope["path"] == "/large" else repr(client).encode()
    length = str(len(body)).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]}
    )
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class Place:
    port: int
    path: Path

    def connect(self, *, by_socket: bool = False) -> socket.socket:
        if not by_socket:
            return socket.create_connection(("127.0.0.1", self.port), timeout=patient.PATIENCE_S)
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(patient.PATIENCE_S)
        found.connect(str(self.path))
        return found


@contextmanager
def serving(
    let_in: Admission, folder: Path, patience: ClientTimeouts = LONG, served: ASGIApp = app
) -> Iterator[Place]:
    tcp = socket.create_server(("127.0.0.1", 0))
    unix = unix_peer.listen_on_path(folder / "s", private=False)
    started = threading.Event()
    server = Server(
        served, let_in, patience=patience, keep_alive_s=600, grace_s=1, on_started=started.set
    )
    thread = threading.Thread(target=server.run, args=([tcp, unix],))
    thread.start()
    try:
        assert started.wait(patient.PATIENCE_S)
        yield Place(tcp.getsockname()[1], folder / "s")
    finally:
        server.should_exit = True
        thread.join()


def answered(one: socket.socket) -> bytes:
    """Empty: the connection was closed."""
    try:
        one.sendall(ASK)
        heard = b""
        while not heard.partition(b"\r\n\r\n")[2]:
            if not (part := one.recv(4096)):
                return b""
            heard += part
    except OSError:
        return b""
    return heard


def let_in_of(place: Place, many: int, stack: ExitStack, *, by_socket: bool = False) -> int:
    tried = [stack.enter_context(place.connect(by_socket=by_socket)) for _ in range(many)]
    return sum(bool(answered(one)) for one in tried)


def test_a_user_has_so_many_connections_on_each_way_and_gets_them_back(tmp_path: Path) -> None:
    with serving(Admission(40, 3), tmp_path) as place:
        with ExitStack() as stack:
            assert let_in_of(place, 7, stack) == 3
            assert let_in_of(place, 7, stack, by_socket=True) == 3
        until_let_in(place)
        with ExitStack() as stack:
            assert let_in_of(place, 7, stack) <= 3


def until_let_in(place: Place) -> None:
    deadline = time.monotonic() + patient.PATIENCE_S
    while True:
        with place.connect() as one:
            if answered(one):
                return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_all_together_have_so_many_and_one_at_most_half(tmp_path: Path) -> None:
    with serving(Admission(10, 1000), tmp_path) as place, ExitStack() as stack:
        assert let_in_of(place, 12, stack) == 5
        assert let_in_of(place, 12, stack, by_socket=True) == 5


def test_a_proxy_connects_for_many_but_not_for_all(tmp_path: Path) -> None:
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    let_in = Admission(20, 2, resolve_proxies(["nobody-of-this-name", me, "10.0.0.0/8"]))
    with serving(let_in, tmp_path) as place, ExitStack() as stack:
        assert let_in_of(place, 20, stack) == 15
        with place.connect(by_socket=True) as one:
            assert b"None" in answered(one), "it is no one client"


def test_proxies_are_named_by_account_or_number_and_the_usual_ones_always_count() -> None:
    with capture_logs() as logs:
        found = resolve_proxies(["4711", "ngnix", "10.0.0.5"])
    assert {4711, pwd.getpwnam("www-data").pw_uid} <= found.uids
    assert [str(network) for network in found.networks] == ["10.0.0.5/32"]
    assert [line["name"] for line in logs] == ["ngnix"]


@pytest.mark.parametrize("account", ["www-data", "wwwrun", "http", "apache", "nginx", "lighttpd"])
def test_the_web_servers_accounts_of_the_usual_distributions_are_proxies(account: str) -> None:
    assert account in USUAL_PROXIES


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_the_kernel_says_whose_the_other_end_is(family: socket.AddressFamily) -> None:
    with socket.socket(family) as listening:
        try:
            listening.bind(("127.0.0.1" if family is socket.AF_INET else "::1", 0))
        except OSError:
            pytest.skip("this host has no IPv6")
        listening.listen()
        where = listening.getsockname()[:2]
        with socket.create_connection(where), listening.accept()[0] as accepted:
            assert owner(accepted.getpeername()[:2], accepted.getsockname()[:2]) == os.getuid()


def owner(peer: tuple[str, int], here: tuple[str, int]) -> int | None:
    with closing(SocketOwners()) as owners:
        return owners.find_uid(*map(TcpEndpoint.from_socket_name, (peer, here)))


@as_root
def test_users_of_this_host_are_told_apart_on_loopback(tmp_path: Path) -> None:
    """One who takes all that one may leaves the others theirs."""
    with serving(Admission(40, 3), tmp_path) as place, ExitStack() as stack:
        assert let_in_of(place, 7, stack) == 3
        program = (
            "import encodings.idna, os, socket\nos.setuid(65534)\n"
            f"s = socket.create_connection(('127.0.0.1', {place.port}))\n"
            f"s.sendall({ASK!r})\nheard = b''\n"
            "while not heard.partition(b'\\r\\n\\r\\n')[2]: heard += s.recv(4096)\n"
            "print(heard)"
        )
        done = subprocess.run(
            [sys.executable, "-IS", "-c", program],
            capture_output=True, text=True, check=True, timeout=patient.PATIENCE_S,
        )  # fmt: skip
        assert "uid 65534" in done.stdout


@as_root
def test_uids_without_an_account_are_one_client(tmp_path: Path) -> None:
    """One user may have thousands of them (subuid(5))."""
    with serving(Admission(40, 3), tmp_path) as place:
        program = (
            "import encodings.idna, os, socket\nlet_in = []\n"
            "for uid in range(1_999_000_000, 1_999_000_007):\n"
            "    os.seteuid(uid)\n"
            f"    s = socket.create_connection(('127.0.0.1', {place.port}))\n"
            "    os.seteuid(0)\n"
            "    try:\n"
            f"        s.sendall({ASK!r})\n"
            "        let_in += [s] * bool(s.recv(4096))\n"
            "    except OSError:\n"
            "        pass\n"
            "print(len(let_in))"
        )
        done = subprocess.run(
            [sys.executable, "-IS", "-c", program],
            capture_output=True, text=True, check=True, timeout=patient.PATIENCE_S,
        )  # fmt: skip
        assert done.stdout == "3\n"


def test_who_listens_at_a_clients_port_is_not_the_client() -> None:
    """The kernel names that socket where it knows no connection."""
    with socket.create_server(("0.0.0.0", 0)) as listening:  # noqa: S104
        port = listening.getsockname()[1]
        assert owner(("203.0.113.7", port), ("192.0.2.1", 6480)) is None
        assert owner(("127.0.0.1", port), ("127.0.0.1", 6480)) is None


class FromAfar(socket.socket):
    """A connection whose ends are where the test says."""

    def __init__(self, address: str) -> None:
        super().__init__(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self._address = address

    def getpeername(self) -> tuple[str, int]:
        return self._address, 40000

    def getsockname(self) -> tuple[str, int]:
        return "2001:db8::1" if ":" in self._address else "192.0.2.1", 6480


def test_from_elsewhere_a_client_is_an_address_or_a_network_of_ipv6() -> None:
    proxies = resolve_proxies(["198.51.100.0/24"])
    with closing(Admission(40, 2, proxies)) as let_in, ExitStack() as stack:

        def admitted(*addresses: str) -> list[bool]:
            tried = [let_in.admit_connection(FromAfar(address)) for address in addresses]
            for one in filter(None, tried):
                stack.enter_context(one)
            return [one is not None for one in tried]

        assert admitted(*["203.0.113.7"] * 3) == [True, True, False]
        assert admitted("203.0.113.8") == [True]
        assert admitted("2001:db8:1::1", "2001:db8:1::2", "2001:db8:1::3") == [True, True, False]
        assert admitted("2001:db8:1:1::1", "::ffff:203.0.113.7") == [True, False]
        assert admitted(*["198.51.100.3"] * 9) == [True] * 9, "a proxy"


def test_streams_of_one_client_leave_others_theirs(
    tmp_path: Path,
    context: ApiContext,
    store: Store,
    cluster_id: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those who do not say who they are; who does has their own."""
    monkeypatch.setattr(change_feed, "MAX_PER_CLIENT", 2)
    alice = {"Authorization": f"Bearer {bearer(store, cluster_id, 'alice')}"}
    let_in = Admission(40, 20)
    with serving(let_in, tmp_path, served=create_app(context)) as place, ExitStack() as stack:
        url = f"http://127.0.0.1:{place.port}"
        streams = [stack.enter_context(listening(url)) for _ in range(2)]
        assert [stream.next().name for stream in streams] == ["health", "health"]
        assert patient.get(url + PATH).status_code == 429
        assert patient.get(f"{url}{PATH}?for_s=0", headers=alice).status_code == 200


def test_streams_are_half_of_all_connections_at_most(tmp_path: Path, context: ApiContext) -> None:
    served = create_app(replace(context, connections=4))
    with serving(Admission(40, 20), tmp_path, served=served) as place, ExitStack() as stack:
        url = f"http://127.0.0.1:{place.port}"
        stream = stack.enter_context(listening(url))
        assert stream.next().name == "health"
        assert patient.get(url + PATH).status_code == 429, "the other one is for who is known"


@pytest.mark.parametrize(
    ("wanted", "descriptors", "found"),
    [(512, 8192, 512), (512, 1024, 512), (512, 600, 300), (512, 256, 96), (20, 8192, 20)],
)
def test_connections_leave_descriptors_to_the_worker(
    wanted: int, descriptors: int, found: int
) -> None:
    assert admission.compute_connection_limit(wanted, descriptors) == found


def test_with_too_few_descriptors_nothing_is_served() -> None:
    with pytest.raises(InputError, match="needs 176 or more"):
        admission.compute_connection_limit(512, 128)


def test_an_answer_that_nobody_takes_is_dropped(tmp_path: Path) -> None:
    """Also one that is taken a byte at a time, and while more is asked for."""
    patience = ClientTimeouts(head_s=600, body_s=600, taking_s=0.5)
    with serving(Admission(40, 10), tmp_path, patience) as place, place.connect() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(ASK.replace(b" / ", b" /large "))
        deadline, taken = time.monotonic() + 2 * patient.PATIENCE_S, 0
        while part := _part(one):
            taken += len(part)
            assert time.monotonic() < deadline, "it is waited for"
            time.sleep(0.05)
        assert taken < LARGE


def _part(one: socket.socket) -> bytes:
    try:
        one.sendall(ASK)
        return one.recv(1)
    except OSError:
        return b""


def test_an_answer_that_is_taken_slowly_comes_whole(tmp_path: Path) -> None:
    with serving(Admission(40, 10), tmp_path) as place, place.connect() as one:
        one.sendall(ASK.replace(b" / ", b" /large "))
        taken = 0
        while taken < LARGE:
            part = one.recv(2**20)
            assert part
            taken += len(part)


@pytest.mark.parametrize("more", [b"", b"Upgrade: h2c\r\nConnection: Upgrade\r\n"])
def test_who_asks_on_and_on_waits_and_what_is_asked_is_not_kept_here(
    tmp_path: Path, more: bytes
) -> None:
    """Also with words of another protocol. Each request takes one read's worth at most with it."""
    asked = ASK.replace(b" / ", b" /slow ").replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n")
    with (
        serving(Admission(40, 10), tmp_path, served=_reading) as place,
        place.connect(by_socket=True) as one,
    ):
        one.setblocking(False)
        sent = heard = 0
        deadline = time.monotonic() + 2 * patient.PATIENCE_S
        while heard < 100:
            select.select([one], [one], [], patient.PATIENCE_S)
            with suppress(BlockingIOError):
                sent += one.send(asked * 1000)
            with suppress(BlockingIOError):
                heard += one.recv(65536).count(b"200 OK")
            assert time.monotonic() < deadline
        assert sent - heard * len(asked) < 2**20, "what two sockets hold, and two reads"


def test_what_is_asked_ahead_is_answered_in_its_turn(tmp_path: Path) -> None:
    """In pieces that end anywhere; whether or not the answer reads the request."""
    post = b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
    many = (ASK + post + post.replace(b"/read", b"/")) * 100
    with (
        serving(Admission(40, 10), tmp_path, served=_reading) as place,
        place.connect(by_socket=True) as one,
    ):
        for at in range(0, len(many), 97):
            one.sendall(many[at : at + 97])
        heard = b""
        while heard.count(b"200 OK") < 300:
            part = one.recv(65536)
            assert part
            heard += part
        assert heard.count(b"abc") == 100


async def _reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads all there is, then thinks, as the service does; or, of a POST to `/`, reads nothing."""
    body, more = b"", scope["method"] == "GET" or scope["path"] == "/read"
    while more:
        part = await receive()
        body, more = body + part["body"], part["more_body"]
    if scope["path"] == "/slow":
        await asyncio.sleep(0.01)
    head = {"type": "http.response.start", "status": 200}
    await send(head | {"headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
