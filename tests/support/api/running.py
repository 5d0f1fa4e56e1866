"""Runs the real app on real sockets, and sends requests to it as users."""

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
    """The service's protocol with time limits of an hour, so that a busy machine breaks no test."""

    def __init__(self, config: Config, server_state: ServerState, **options: Any) -> None:
        super().__init__(config, server_state, patience=LONG, **options)


def identify(credential: str, payload: str) -> Caller:
    """Return the user NAME for a credential `NAME:PAYLOAD`, if PAYLOAD is that of the request."""
    user, _, signed_text = credential.partition(":")
    if user not in USERS or signed_text != payload:
        raise NotIdentified("nobody vouches for that")
    return Caller(USERS[user], user)


@dataclass(frozen=True, slots=True)
class Client:
    """Sends requests as the user `who`, and without a credential if `who` is None."""

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

    def raw(self, method: str, path: str, **options: Any) -> httpx.Response:
        with httpx.Client(
            trust_env=False, timeout=patient.PATIENCE_S, verify=patient.NO_ISSUER
        ) as http:
            return http.request(method, self.url + path, **options)

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
        all_headers = {"Content-Type": "application/json"} | dict(headers or {})
        target = str(httpx.URL(path).copy_merge_params(params)) if params else path
        if who is not None:
            all_headers["Authorization"] = (
                f"MUNGE {who}:{build_signed_text(method, target, body, CLUSTER)}"
            )
        return self.raw(method, target, content=body, headers=all_headers)


class Stage:
    """A uvicorn server in a thread, which serves one app after another.

    All tests share it, since a server takes a while to start. Each test puts its own app in.
    """

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
        with self.serve_app(create_app(context)) as client:
            yield client

    @contextmanager
    def serve_app(self, app: FastAPI) -> Iterator[Client]:
        """Serve an app of `create_app` until the block ends."""
        old_app, self._app = self._app, app
        yield Client(self.url)
        self._app = old_app

    @contextmanager
    def call_by_socket(self) -> Iterator[httpx.Client]:
        """Yield a client that calls through the unix socket."""
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
        """Listen on a free port of loopback, and on a unix socket in `folder`."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.socket_path = folder / "socket"
        unix_listener = unix_peer.listen_on_path(self.socket_path, private=True)
        config = uvicorn.Config(
            self,
            http=PatientProtocol,
            proxy_headers=False,
            log_config=None,
            lifespan="off",
            ws="none",
            # Streams that tests left open would each keep the end of the test run waiting.
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener, unix_listener],))
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
            listener.close()
