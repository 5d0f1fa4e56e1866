"""Finds the service and sends requests to it, for commands and for suggestions on Tab.

On a unix socket the kernel tells the service who calls. Over HTTP a request carries a credential of
MUNGE or of Slurm's own socket, or the token of a file.
"""

import os
import socket
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

from mirage.config.paths import get_user_state_dir, load_plugin_module
from mirage.domain.callers.request_signing import build_signed_text
from mirage.errors import ClusterUnavailable, InputError, ServiceUnavailable
from mirage.slurm.clients.auth import munge

PREFIX = "/api/v1"
UNIX = "unix://"


def resolve_service_url(url: str | None) -> str:
    """Return the URL of the service to call.

    The first of these counts: `url`, MIRAGE_URL, the user's own service if one runs, the client's
    configuration file, the package's socket. Raises InputError for a malformed URL.
    """
    address = (
        url or os.environ.get("MIRAGE_URL") or _find_own_socket() or _load_plugin().url(os.environ)
    )
    if not address.startswith(("http://", "https://", f"{UNIX}/")):
        raise InputError(
            f"the service's address {address!r} is not valid: give https://HOST, http://HOST or "
            "unix:///PATH with --url or MIRAGE_URL"
        )
    return str(address).rstrip("/")


def _find_own_socket() -> str | None:
    """Return the socket of `mirage serve --user`, if the user owns it and a service listens."""
    path = get_user_state_dir() / "socket"
    try:
        if path.lstat().st_uid != os.geteuid():
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
    except OSError:
        return None
    return f"{UNIX}{path}"


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - HTTP's own


def send_request(
    url: str,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    identified: bool,
    timeout_s: float,
) -> ServiceResponse:
    """Send a request to the service at `url` and return its answer; redirects are not followed.

    Nothing is sent to a process that is not the service, as far as the system can tell. If
    `identified`, the request carries a credential. Raises ServiceUnavailable, which says why, and
    InputError for a bad token file.
    """
    plugin = _load_plugin()
    try:
        peer = plugin.connect(url, os.environ, timeout_s)
    except (plugin.Unreachable, OSError) as error:
        raise ServiceUnavailable(str(error) or type(error).__name__) from error
    connection = HTTPConnection("mirage", timeout=timeout_s)
    connection.sock = _wrap_socket(peer.stream, timeout_s)
    with closing(connection):
        headers = {"Host": peer.host}
        headers |= {"Content-Type": "application/json"} if body else {}
        if identified and not peer.is_socket:
            headers["Authorization"] = _build_authorization(method, target, body, peer, timeout_s)
        try:
            connection.request(method, peer.prefix + target, body or None, headers)
            answer = connection.getresponse()
            return ServiceResponse(answer.status, answer.read())
        except (HTTPException, OSError) as error:
            raise ServiceUnavailable(str(error) or type(error).__name__) from error


def _wrap_socket(stream: socket.SocketType, timeout_s: float) -> socket.socket:
    """Return the plugin's socket, of the built-in module alone, as one of the full module."""
    if isinstance(stream, socket.socket):
        return stream
    wrapped = socket.socket(fileno=stream.detach())
    wrapped.settimeout(timeout_s)
    return wrapped


def _build_authorization(method: str, target: str, body: bytes, peer: Any, timeout_s: float) -> str:
    """Build the header's value: the token of MIRAGE_TOKEN_FILE, else a credential of Slurm's socket
    or of MUNGE, whichever Slurm uses."""
    plugin, credentials = _load_plugin(), load_plugin_module("client.credentials")
    token_file = os.environ.get(credentials.TOKEN_FILE)
    if token_file and not peer.is_known:
        raise ServiceUnavailable(
            "Mirage sends a token over https alone, or to the service's socket: over http others "
            "could read the token. Set MIRAGE_URL to https://HOST"
        )
    if token_file:
        try:
            return f"Bearer {credentials.read_token(token_file)}"
        except plugin.Unreachable as error:
            raise InputError(str(error)) from error
    try:
        signed_text = build_signed_text(method, target, body, plugin.cluster(os.environ))
    except plugin.Unreachable as error:
        raise ServiceUnavailable(str(error)) from error
    if not credentials.uses_sack(os.environ):
        return f"MUNGE {munge.create_credential(signed_text)}"
    try:
        return str(credentials.build_sack_authorization(signed_text, peer, os.environ, timeout_s))
    except plugin.Unreachable as error:
        raise ClusterUnavailable(str(error)) from error


def _load_plugin() -> Any:
    """Load the plugin's module that finds the service and checks who listens there."""
    return load_plugin_module("client.service")
