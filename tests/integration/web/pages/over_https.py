"""A proxy with TLS before a service, whose certificate nobody vouches for."""

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

_READ = 65536


@contextmanager
def over_https(folder: Path) -> Iterator["Front"]:
    """Listens on a free port of loopback, as `localhost`."""
    front = Front(_certificate(folder))
    thread = threading.Thread(target=asyncio.run, args=(front.serve(),))
    thread.start()
    front.listens.wait()
    try:
        yield front
    finally:
        front.end()
        thread.join()


class Front:
    def __init__(self, certificate: Path) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self.listens = threading.Event()
        self.url = ""
        self.behind = ""
        """Where the service is; set once that is known."""

    async def serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._passed_on, "127.0.0.1", 0, ssl=self._tls)
        self.url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        self.listens.set()
        await self._over.wait()
        server.close()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    async def _passed_on(
        self, asking: asyncio.StreamReader, answering: asyncio.StreamWriter
    ) -> None:
        place = urlsplit(self.behind)
        read, write = await asyncio.open_connection(place.hostname, place.port)
        await asyncio.gather(_copy(asking, write), _copy(read, answering))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while part := await source.read(_READ):
            sink.write(part)
            await sink.drain()
    except OSError:
        pass  # one end has gone: so does the other
    finally:
        sink.close()


def _certificate(folder: Path) -> Path:
    made = folder / "localhost.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-subj", "/CN=localhost", "-days", "2", "-out", str(made), "-keyout", "-"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    with made.open("a") as file:
        file.write(done.stdout)
    return made
