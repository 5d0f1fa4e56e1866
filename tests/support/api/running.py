"""The real app on a real socket, and people who call it."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from mirage.domain.callers.caller import Caller
from mirage.domain.callers.request_signing import build_signed_text
from mirage.errors import NotIdentified
from mirage.web.api.app import ApiContext, create_app
from mirage.web.shared.auth import unix_peer
from tests.support import patient

NOW = 1_800_000_000
USERS = {"alice": 1001, "bob": 1002, "carol": 1003, "root": 0}
LONG = unix_peer.ClientTimeouts(head_s=3600, body_s=3600, taking_s=3600)
CHAIN = "k3v9x2m7q1zt"
CLUSTER = "lab"


class PatientProtocol(unix_peer.PeerProtocol):
    """Ends no connection of a client that a busy machine keeps from sending or taking."""

    def __init__(self, config: Config, server_state: ServerState, **rest: Any) -> None:
        super().__init__(config, server_state, patience=LONG, **rest)


def identify(credential: str, payload: str) -> Caller:
    """Believes `NAME:PAYLOAD` where it names the request at hand."""
    user, _, held = credential.partition(":")
    if user not in USERS or held != payload:
        raise NotIdentified("nobody vouches for that")
    return Caller(USERS[user], user)


@dataclass(frozen=True, slots=True)
class Client:
    """What people send; as nobody unless `who` is given."""

    url: str

    def get(self, path: str, *, who: str | None = None, **params: Any) -> httpx.Response:
        return self._send("GET", path, b"", who, params=params)

    def post(
        self,
        path: str,
        body: bytes = b"",
        *,
        who: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        return self._send("POST", path, body, who, headers=headers)

    def put(
        self,
        path: str,
        body: bytes,
        *,
        who: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        return self._send("PUT", path, body, who, headers=headers)

    def raw(self, method: str, path: str, **how: Any) -> httpx.Response:
        with httpx.Client(
            trust_env=False, timeout=patient.PATIENCE_S, verify=patient.NO_ISSUER
        ) as http:
            return http.request(method, self.url + path, **how)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        who: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        sent = {"Content-Type": "application/json"} | dict(headers or {})
        target = str(httpx.URL(path).copy_merge_params(params)) if params else path
        if who is not None:
            sent["Authorization"] = (
                f"MUNGE {who}:{build_signed_text(method, target, body, CLUSTER)}"
            )
        return self.raw(method, target, content=body, headers=sent)


class Stage:
    """uvicorn in a thread, on a free port of loopback: one for all tests, each with its own app."""

    def __init__(self) -> None:
        self._app: FastAPI | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    @property
    def app(self) -> FastAPI:
        assert self._app is not None
        return self._app

    @contextmanager
    def serving(self, context: ApiContext) -> Iterator[Client]:
        with self.showing(create_app(context)) as client:
            yield client

    @contextmanager
    def showing(self, app: FastAPI) -> Iterator[Client]:
        """That app, whatever has been added to it."""
        before, self._app = self._app, app
        yield Client(self.url)
        self._app = before

    @contextmanager
    def calling(self) -> Iterator[httpx.Client]:
        """Calls through the unix socket."""
        transport = httpx.HTTPTransport(uds=str(self.socket_path), verify=patient.NO_ISSUER)
        with httpx.Client(
            base_url="http://mirage",
            transport=transport,
            trust_env=False,
            timeout=patient.PATIENCE_S,
        ) as http:
            yield http

    @contextmanager
    def open(self, folder: Path) -> Iterator[None]:
        """On loopback, and on a unix socket in `folder`."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.socket_path = folder / "socket"
        local = unix_peer.listen_on_path(self.socket_path, private=True)
        config = uvicorn.Config(
            self,
            http=PatientProtocol,
            proxy_headers=False,
            log_config=None,
            lifespan="off",
            ws="none",
            # A stream that a test has left open would keep the stage, and the whole run, for ever.
            timeout_graceful_shutdown=60,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening, local],))
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
            listening.close()
