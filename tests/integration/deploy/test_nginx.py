"""The nginx example with a real nginx before a real service: sub-path, live events, headers."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests import needed
from tests.support import patient
from tests.support.mirage_process import QuietSlurm, configured, run, serving
from tests.support.paths import CHECKOUT

EXAMPLE = CHECKOUT / "deploy" / "nginx" / "mirage.conf"
LIMITS = EXAMPLE.with_name("mirage-limits.conf")
_WHOLE = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
{user}
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    include {limits};
    server {{
        listen 127.0.0.1:{port};
        include {example};
    }}
}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its socket: what the proxy asks."""
    folder = tmp_path_factory.mktemp("service")
    config = configured(folder)
    own = f'[service]\nroot_path = "/mirage"\nsocket = "{folder}/socket"\nproxies = ["{_me()}"]'
    config.write_text(config.read_text().replace("[service]", own))
    assert run("db", "upgrade", "--config", str(config)).code == 0
    with serving(config, QuietSlurm(folder / "bin")) as started:
        started.wait_until_ready()
        yield folder / "socket"
        assert started.end() == 0


@pytest.fixture(scope="module")
def public(service: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of nginx's, without the sub-path."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        needed.absent("nginx is not installed")
    folder = tmp_path_factory.mktemp("nginx")
    example = folder / "mirage.conf"
    example.write_text(EXAMPLE.read_text().replace("/run/mirage/api.sock", str(service)))
    limits = folder / "mirage-limits.conf"
    # So that a busy machine, too, can ask faster than that.
    limits.write_text(LIMITS.read_text().replace("rate=20r/s", "rate=1r/s"))
    port, whole = _free_port(), folder / "nginx.conf"
    user = f"user {_me()};" if os.geteuid() == 0 else ""
    whole.write_text(
        _WHOLE.format(folder=folder, port=port, example=example, limits=limits, user=user)
    )
    words = [nginx, "-c", str(whole), "-p", str(folder), "-e", "stderr"]
    tested = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
    assert "warn" not in tested.stderr
    with _running_proxy(words, port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running_proxy(words: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + patient.PATIENCE_S
            while not _listens(port):
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline, "nginx does not listen"
                time.sleep(0.02)
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _me() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def test_pages_and_what_they_load_are_below_the_sub_path(public: str) -> None:
    assert patient.get(f"{public}/mirage").headers["Location"].endswith("/mirage/")
    page = patient.get(f"{public}/mirage/", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "text/html" in page.headers["Content-Type"]
    links = [part.split('"')[0] for part in page.text.replace("src=", "href=").split('href="')[1:]]
    own = [link for link in links if link.startswith("/")]
    assert len(own) > 3
    assert [link for link in own if not link.startswith("/mirage/")] == []
    style = next(link for link in own if ".css" in link)
    assert patient.get(public + style).status_code == 200


def test_a_form_over_http_is_known_as_our_own_by_host_and_port(public: str) -> None:
    """A browser says no more there: Sec-Fetch-Site is of secure origins alone."""
    sent = patient.post(f"{public}/mirage/login", data={"token": "x"}, headers={"Origin": public})
    assert sent.status_code == 401
    other = {"Origin": "http://127.0.0.1"}
    assert (
        patient.post(f"{public}/mirage/login", data={"token": "x"}, headers=other).status_code
        == 403
    )


def test_what_is_not_mirages_is_not_passed_on(public: str) -> None:
    assert patient.get(f"{public}/healthz").status_code == 404
    assert "X-Request-Id" in patient.get(f"{public}/mirage/healthz").headers
    assert patient.get(f"{public}/mirage/metrics").status_code == 404


def test_the_name_that_the_browser_asked_comes_through(public: str) -> None:
    for name, status in (("localhost", 200), ("evil.example", 421)):
        asked = patient.get(f"{public}/mirage/healthz", headers={"Host": name})
        assert asked.status_code == status


def test_live_events_come_at_once(public: str) -> None:
    """Unbuffered: the stream's first words are there long before it ends, after ten minutes."""
    began = time.monotonic()
    with (
        httpx.Client(timeout=patient.PATIENCE_S) as client,
        client.stream("GET", f"{public}/mirage/api/v1/events") as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert "Content-Encoding" not in answer.headers
        assert next(answer.iter_text())
    assert time.monotonic() - began < patient.PATIENCE_S


def test_heads_and_bodies_that_do_not_come_are_given_up(public: str) -> None:
    host = b"Host: localhost\r\n"
    half = {
        "head": b"GET /mirage/healthz HTTP/1.1\r\n" + host + b"X-Slow: ",
        "body": b"POST /mirage/api/v1/kill HTTP/1.1\r\n" + host + b"Content-Length: 9\r\n\r\n{",
    }
    with ExitStack() as stack:
        clients = [stack.enter_context(_from(public, "127.0.0.9")) for _ in half]
        for client, sent in zip(clients, half.values(), strict=True):
            client.sendall(sent)
        for client in clients:  # each waits as long as it takes: for ever, without limits
            while client.recv(4096):
                pass


def test_a_body_that_is_too_long_is_not_passed_on(public: str) -> None:
    answer = patient.post(f"{public}/mirage/api/v1/kill", content=bytes(65 * 1024))
    assert answer.status_code == 413
    assert "X-Request-Id" not in answer.headers, "nginx itself"


def test_one_address_has_so_many_streams_and_others_have_theirs(public: str) -> None:
    ask = b"GET /mirage/api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        statuses = [
            _status(stack.enter_context(_from(public, "127.0.0.7")), ask) for _ in range(20)
        ]
        assert statuses == [200] * 16 + [429] * 4
        assert _status(stack.enter_context(_from(public, "127.0.0.8")), ask) == 200
        whole = b"GET /mirage/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert _status(stack.enter_context(_from(public, "127.0.0.7")), whole) == 200


def test_one_address_that_asks_too_fast_is_told_so_and_others_are_not(public: str) -> None:
    ask = b"GET /mirage/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with _from(public, "127.0.0.5") as fast, _from(public, "127.0.0.6") as other:
        assert 429 in (_status(fast, ask) for _ in range(1000))
        assert _status(other, ask) == 200


def _from(public: str, address: str) -> socket.socket:
    """A connection of somebody at that address of loopback."""
    to = httpx.URL(public)
    return socket.create_connection(
        (to.host, to.port or 80), timeout=patient.PATIENCE_S, source_address=(address, 0)
    )


def _status(client: socket.socket, ask: bytes) -> int:
    """Of the answer, whose body comes with its head or does not end."""
    client.sendall(ask)
    heard = b""
    while not heard.partition(b"\r\n\r\n")[2]:
        part = client.recv(65536)
        assert part, heard
        heard += part
    return int(heard.split()[1])


def test_no_header_of_a_callers_makes_an_admin(public: str) -> None:
    claims = {
        "X-Forwarded-User": "root",
        "X-Remote-User": "root",
        "X-Forwarded-For": "127.0.0.1",
        "X-Forwarded-Prefix": "/evil",
    }
    asked = patient.post(f"{public}/mirage/api/v1/kill", headers=claims)
    assert asked.status_code == 401
    assert "/evil" not in patient.get(f"{public}/mirage/", headers=claims).text


def test_the_doctor_says_whether_the_way_there_is_right(public: str, tmp_path: Path) -> None:
    config = str(configured(tmp_path))

    def told(url: str) -> tuple[str, str]:
        while True:
            answer = run("doctor", "--no-moves", "--json", "--url", url, "--config", config)
            found = {f["what"]: f for f in json_of(answer.out)}
            if "timed out" not in found["proxy"]["told"]:  # doctor's ten seconds, on a busy machine
                return found["proxy"]["verdict"], found["proxy"]["told"]

    verdict, sentence = told(f"{public}/mirage")
    assert (verdict, "below /mirage" in sentence) == ("good", True)
    verdict, sentence = told(public)
    assert (verdict, "is not passed on to Mirage" in sentence) == ("fault", True)
    named = public.replace("127.0.0.1", "127.1")  # a name, as far as the header Host goes
    verdict, sentence = told(f"{named}/mirage")
    assert (verdict, f"add {named!r} to service.origins" in sentence) == ("fault", True)
    verdict, sentence = told("http://127.0.0.1:9/mirage")
    assert (verdict, "does not answer" in sentence) == ("fault", True)


def json_of(text: str) -> list[dict[str, str]]:
    findings: list[dict[str, str]] = json.loads(text)["findings"]
    return findings
