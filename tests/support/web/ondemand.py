"""The card "My chains" in a dashboard, and services of all kinds for the card to ask."""

import os
import pwd
import random
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import chains, decisions, forecasts, links, snapshots
from mirage.domain.decision import Mode
from tests import needed
from tests.support.paths import DEPLOY, SUPPORT
from tests.support.web.looking import Visitor
from tests.support.web.seeded import LOOKED_AT, put
from tests.support.web.seeded_chain import SeededChain
from tests.support.web.serving import serve_database

RUBY = Path("/usr/bin/ruby")
PLUGIN = DEPLOY / "ondemand" / "mirage"
DASHBOARD = "/pun/sys/dashboard"
CARD = f"{DASHBOARD}/widgets/mirage_chains"
HOSTILE = "<script>document.title = 'broken'</script> & \"quoted\" 'x'"

OWN, OTHERS = (0, 5, 7, 10), 1
"""Numbers of seeded chains: the caller's (number 5 is paused, 7 is at risk), and another user's."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    url: str
    configuration: Path
    """The client.conf that the card reads each time; it names the service."""

    def name_service(self, path: Path) -> None:
        self.configuration.write_text(f"url = unix://{path}\n")


@contextmanager
def run_dashboard(folder: Path, *, limit_s: float | None = None) -> Iterator[Dashboard]:
    """Run a dashboard with the plugin, as the user of this process; `limit_s`: of the card."""
    assets = folder / "assets"
    assets.mkdir()
    for package in (needed.TURBO, needed.BOOTSTRAP):
        shutil.copy(needed.fetch_file(package), assets)
    configuration = folder / "client.conf"
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    environment |= {} if limit_s is None else {"MIRAGE_CARD_LIMIT_S": str(limit_s)}
    environment |= {"RAILS_ENV": "production", "MIRAGE_CLIENT_CONF": str(configuration)}
    environment |= {"TZ": "UTC", "LANG": "C.UTF-8", "http_proxy": "http://127.0.0.1:9"}
    with subprocess.Popen(
        [RUBY, SUPPORT / "web" / "ondemand_dashboard.rb", PLUGIN, assets],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port.isdigit(), "the dashboard does not start"
            yield Dashboard(f"http://127.0.0.1:{port}", configuration)
        finally:
            process.kill()


def read_problem(service: Path) -> str:
    """Return the sentence of a card on the service's fault, after the card's own limit of time."""
    program = "puts MirageChains.read.problem"
    done = subprocess.run(
        [RUBY, "-w", "-r", PLUGIN / "lib" / "mirage_chains.rb", "-e", program],
        env=os.environ | {"MIRAGE_URL": f"unix://{service}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@contextmanager
def serve_own_chains(template: Path, folder: Path) -> Iterator[Path]:
    """Serve chains of this process's user, and one of another user; yield the service's socket."""
    database = folder / "mirage.db"
    shutil.copy(template, database)
    with closing(Store(f"sqlite:///{database}")) as store:
        cluster_id = _seed_own_chains(store)
    with serve_database(database, folder, cluster_id, users=()):
        yield folder / "socket"


def _seed_own_chains(store: Store) -> int:
    rng = random.Random(20260302)  # noqa: S311 - the same each time
    me = pwd.getpwuid(os.geteuid())
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        seeded = {n: SeededChain(cluster_id, n, rng) for n in (*OWN, OTHERS)}
        for n in OWN:
            seeded[n].row |= {"user": me.pw_name, "uid": me.pw_uid}
        seeded[OWN[0]].decisions[-1]["reason"] = HOSTILE
        rows = seeded.values()
        put(tx, chains, (chain.row for chain in rows))
        put(tx, links, (row for chain in rows for row in chain.links))
        put(tx, decisions, (row for chain in rows for row in chain.decisions))
        put(tx, forecasts, (row for chain in rows for row in chain.forecasts))
        look = {"cluster_id": cluster_id, "taken_at": LOOKED_AT, "features": "{}"}
        put(tx, snapshots, [look])
    return cluster_id


@dataclass
class Impostor:
    """Listens on a unix socket, and answers each connection as it is told."""

    path: Path
    connections: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    """A connection that is not to be answered is kept until then."""


Answer = Callable[[socket.socket, Impostor], None]


@contextmanager
def listen(path: Path, answer: Answer) -> Iterator[Impostor]:
    impostor = Impostor(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_accept, args=(listener, impostor, answer))
        thread.start()
        try:
            yield impostor
        finally:
            impostor.released.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket, impostor: Impostor, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # shut down
            return
        impostor.connections += 1
        with connection:
            try:
                connection.recv(65_536)
                answer(connection, impostor)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the card has read enough


def send(answer: bytes) -> Answer:
    return lambda connection, _impostor: connection.sendall(answer)


def send_page(status: str, kind: str, body: bytes = b"", more: str = "") -> bytes:
    """Build a whole answer of HTTP."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def say_nothing(_connection: socket.socket, impostor: Impostor) -> None:
    impostor.released.wait()


def drip(connection: socket.socket, impostor: Impostor) -> None:
    """Send a byte of an endless head now and then, so that no single read takes long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not impostor.released.wait(0.1):
        connection.sendall(b"x")


def flood(connection: socket.socket, _impostor: Impostor) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    while True:
        connection.sendall(b" " * 65_536)


HTML = send_page("200 OK", "text/html", f"<h1>Log in</h1>{HOSTILE}".encode())


def read_frame(visitor: Visitor) -> str:
    """Wait for the card of an open dashboard, and return its text."""
    frame = visitor.page.locator("turbo-frame#mirage_chains[complete]")
    frame.wait_for()
    return frame.inner_text()
