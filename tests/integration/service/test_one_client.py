"""One client without a credential stops neither `mirage serve` nor its worker, do what it may."""

import resource
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.support import patient
from tests.support.mirage_process import QuietSlurm, Serving, configured, run, serving
from tests.support.patient import wait_until

LIMIT_S = 2 * patient.PATIENCE_S
HALF_A_HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /api/v1/chains HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1000000\r\n\r\n{"'
)
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
DESCRIPTORS = 256
MANY = 300
SMALL = 200_000
"""Bytes of log. What it was before came to megabytes in the same time."""


@pytest.fixture
def watchful(tmp_path: Path) -> Path:
    """Of a service that looks at its queue each second, and listens on a unix socket as well."""
    path = configured(tmp_path)
    listening = f'[service]\nsocket = "{tmp_path}/socket"'
    path.write_text(f"{path.read_text()}[polling]\nqueue_s = 1\n".replace("[service]", listening))
    assert run("db", "upgrade", "--config", str(path)).code == 0
    return path


def connected(url: httpx.URL | str) -> socket.socket:
    to = httpx.URL(url)
    return socket.create_connection((to.host, to.port or 0), timeout=patient.PATIENCE_S)


class Slow:
    """Connections that never come to the end of what they send; those that are closed come anew."""

    def __init__(self, url: str, many: int) -> None:
        self._url, self._many = url, many
        self.open: list[socket.socket] = []

    def keep_up(self) -> None:
        """As many as before, each with another byte."""
        self.open = [one for one in self.open if self._is_open(one)]
        while len(self.open) < self._many:
            one = connected(self._url)
            one.sendall(HALF_A_HEAD if len(self.open) % 2 else HALF_A_BODY)
            self.open.append(one)

    def _is_open(self, one: socket.socket) -> bool:
        try:
            if select.select([one], [], [], 0)[0] and not one.recv(4096):
                raise ConnectionResetError
            one.sendall(b"x")
        except OSError:
            one.close()
            return False
        return True


@contextmanager
def slow_clients(url: str, many: int) -> Iterator[Slow]:
    clients = Slow(url, many)
    try:
        yield clients
    finally:
        for one in clients.open:
            one.close()


def by_socket(config: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(config.parent / "socket"), verify=patient.NO_ISSUER)
    return httpx.Client(
        base_url="http://mirage", transport=transport, timeout=patient.PATIENCE_S, trust_env=False
    )


def test_the_worker_starts_its_commands_beside_300_half_requests(
    slurm: QuietSlurm, watchful: Path
) -> None:
    with serving(watchful, slurm, descriptors=DESCRIPTORS) as service:
        service.wait_until_ready()
        with slow_clients(service.url(), MANY) as slow:
            slow.keep_up()
            began = len(slurm.calls("squeue"))

            def ticked() -> bool:
                slow.keep_up()
                with by_socket(watchful) as honest:
                    assert honest.get("/healthz").status_code == 200
                return len(slurm.calls("squeue")) >= began + 6

            wait_until(ticked, "squeue is not started any more", limit_s=LIMIT_S)
            assert service.log_bytes() < SMALL
        assert service.end() == 0
    assert {line["event"] for line in service.log()} & {"tick failed", "Slurm does not answer"} == (
        set()
    )
    told = [e for e in service.log() if e["event"] == "too many connections of one client"]
    assert {line["client"].partition(" ")[0] for line in told} == {"uid"}


def test_what_does_not_come_to_its_end_is_closed_however_it_drips(
    slurm: QuietSlurm, watchful: Path
) -> None:
    """With the times that it has by default. A byte now and then is no more time."""
    with serving(watchful, slurm) as service, ExitStack() as stack:
        service.wait_until_ready()
        begun = {
            "nothing": b"",
            "head": HALF_A_HEAD,
            "body": HALF_A_BODY,
            "second head": WHOLE + HALF_A_HEAD,
            "between two": WHOLE,
        }
        clients = {what: stack.enter_context(connected(service.url())) for what in begun}
        for what, sent in begun.items():
            clients[what].sendall(sent)
        heard = dict.fromkeys(clients, b"")

        def all_closed() -> bool:
            for what, client in list(clients.items()):
                if what in {"head", "body", "second head"}:
                    with suppress(OSError):  # it is closed; what was said before can be read
                        client.sendall(b"x")
                try:
                    while select.select([client], [], [], 0)[0]:
                        part = client.recv(4096)
                        if not part:
                            raise ConnectionResetError
                        heard[what] += part
                except OSError:
                    del clients[what]
            return not clients

        wait_until(all_closed, f"still open: {list(clients)}", limit_s=LIMIT_S)
        assert heard["nothing"].startswith(b"HTTP/1.1 408 ")
        assert heard["body"].startswith(b"HTTP/1.1 408 ")
        assert heard["between two"].startswith(b"HTTP/1.1 200 ")
        assert service.end() == 0
    assert all("exception" not in line for line in service.log())


def descriptors_of(service: Serving) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


def test_out_of_descriptors_callers_are_turned_away_and_it_is_said_once(
    slurm: QuietSlurm, watchful: Path
) -> None:
    """However it came: here its limit is put below what it has open."""
    watchful.write_text(watchful.read_text().replace("queue_s = 1\n", "queue_s = 3600\n"))
    with serving(watchful, slurm, descriptors=DESCRIPTORS) as service:
        service.wait_until_ready()
        pid = service.process.pid
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors_of(service), DESCRIPTORS))
        with ExitStack() as stack:
            waiting = [stack.enter_context(connected(service.url())) for _ in range(40)]

            turned_away = []

            def all_answered() -> bool:
                ready, _, _ = select.select(waiting, [], [], 0)
                for one in ready:
                    # Some descriptors may be free all the same, and their callers have their time.
                    turned_away.append(_received(one) == b"")
                    waiting.remove(one)
                return not waiting

            wait_until(all_answered, "callers wait for what does not come", limit_s=LIMIT_S)
            assert sum(turned_away) > len(turned_away) / 2
        assert service.log_bytes() < SMALL
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        wait_until(lambda: _answers(service), "it does not find back", limit_s=LIMIT_S)
        assert service.end() == 0
    said = [line for line in service.log() if line["event"] == "no descriptors for callers"]
    assert 1 <= len(said) <= 3, "once a minute"
    assert not [line for line in service.log() if "accept" in line["event"]]


def _received(one: socket.socket) -> bytes:
    try:
        return one.recv(4096)
    except ConnectionResetError:
        return b""


def _answers(service: Serving) -> bool:
    try:
        return patient.get(f"{service.url()}/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /api/v1/chains HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n",
        b"\x16\x03\x01 no HTTP at all\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\n"
        b"Upgrade: websocket\r\n\r\n",
        HALF_A_BODY,
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntok",
    ],
    ids=["bad token", "no HTTP", "upgrade", "leaves in a body", "leaves in a form"],
)
def test_what_one_client_sends_a_thousand_times_is_few_lines_of_log(
    slurm: QuietSlurm, watchful: Path, sent: bytes
) -> None:
    """Each of them one that reads as the service's own."""
    many = 1000
    with serving(watchful, slurm) as service:
        service.wait_until_ready()
        before = service.log_bytes()
        for _ in range(many):
            with connected(service.url()) as one:
                one.sendall(sent)
                one.shutdown(socket.SHUT_WR)
                while _received(one):
                    pass
        assert patient.get(f"{service.url()}/healthz").status_code == 200
        assert service.log_bytes() - before < 100 * many
        assert service.end() == 0
    assert all("event" in line for line in service.log())
