"""Decides which connections are accepted.

There is a limit on all connections and a lower one for each client. Some file descriptors are left
to the worker, which needs them when it starts a Slurm command.
"""

import ipaddress
import pwd
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from mirage.domain.callers.caller import NO_ACCOUNT
from mirage.errors import InputError
from mirage.logs import ThrottledLog
from mirage.slurm.clients.host_accounts import find_user_name
from mirage.web.shared.auth.socket_owner import (
    SocketOwners,
    TcpEndpoint,
    read_peer_uid,
    to_client_name,
)

_log = structlog.get_logger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

RESERVED = 160
"""File descriptors that no connection takes: those of the database for 40 threads (two each with
SQLite), of Slurm commands (three pipes each), of files, sockets and the log."""
MIN_CONNECTIONS = 16
"""The least number of connections with which a service is of use."""
WANTED_DESCRIPTORS = 8192
"""File descriptors that the service asks for at its start, as LimitNOFILE= of the unit does. Slurm
commands inherit the limit, and some programs close all descriptors up to it."""
USUAL_PROXIES = (
    *("www-data", "wwwrun", "http", "www", "httpd", "_www", "apache", "apache2", "_apache"),
    *("nginx", "_nginx", "lighttpd", "caddy", "haproxy", "_haproxy", "traefik", "envoy"),
    *("squid", "proxy", "varnish", "vcache", "hitch", "pound", "openresty", "angie"),
)
"""Accounts that web servers and proxies have on the usual distributions: Debian's is www-data,
SUSE's wwwrun, Arch's http, Alpine's nginx, Red Hat's apache."""


def raise_descriptor_limit() -> int:
    """Raise the limit on file descriptors to WANTED_DESCRIPTORS, if no privilege is needed for it.

    Returns the resulting limit, which may be lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def compute_connection_limit(wanted_connections: int, descriptors: int) -> int:
    """Return how many connections are admitted at once.

    They take half of the file descriptors at most, and leave RESERVED. Raises InputError if fewer
    than MIN_CONNECTIONS remain.
    """
    limit = min(wanted_connections, descriptors // 2, descriptors - RESERVED)
    if limit < MIN_CONNECTIONS:
        raise InputError(
            f"{descriptors} descriptors are too few: the service needs "
            f"{RESERVED + MIN_CONNECTIONS} or more; raise the limit of open files (ulimit -n, "
            "LimitNOFILE= of the unit)"
        )
    return limit


@dataclass(frozen=True, slots=True)
class Client:
    """A client that connects: its name, and whether it is one client and not many."""

    name: str
    is_single: bool
    """False for a proxy, and for a client on this host that the kernel does not name."""


class Proxies(NamedTuple):
    """The users and networks that connect on behalf of many clients."""

    uids: frozenset[int]
    networks: tuple[Network, ...]


class AdmittedSocket(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(
        self, accepted: socket.socket, client: Client, on_close: Callable[[], None]
    ) -> None:
        super().__init__(fileno=accepted.detach())
        self.client = client
        self._on_close: Callable[[], None] | None = on_close

    def close(self) -> None:
        super().close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


class Admission:
    """Counts connections by client.

    A client is a user of this host, whom the kernel names, or a network address. A user counts
    apart on the unix socket and over TCP.
    """

    def __init__(self, most: int, client_limit: int, proxies: Proxies | None = None) -> None:
        self.most = most
        self._client_limit = min(client_limit, most // 2)
        self._proxy_limit = most - most // 4
        self._owners = SocketOwners()
        self._uids, self._networks = proxies or resolve_proxies(())
        self._open_counts: Counter[str] = Counter()
        self._throttled_log = ThrottledLog()

    def close(self) -> None:
        self._owners.close()

    def admit_connection(self, accepted: socket.socket) -> AdmittedSocket | None:
        """Return the counted connection; or close it and return None if there are too many."""
        try:
            client = self._resolve_client(accepted)
        except OSError:  # the client has gone already
            accepted.close()
            return None
        name = client.name
        if self._open_counts.total() >= self.most:
            self._refuse_connection(accepted, "too many connections", name)
        elif self._open_counts[name] >= (
            self._client_limit if client.is_single else self._proxy_limit
        ):
            self._refuse_connection(accepted, "too many connections of one client", name)
        else:
            self._open_counts[name] += 1
            return AdmittedSocket(accepted, client, lambda: self._release_slot(name))
        return None

    def _refuse_connection(self, accepted: socket.socket, message: str, name: str) -> None:
        accepted.close()
        self._throttled_log.log_event(
            _log.warning, message, client=name, open=self._open_counts.total()
        )

    def _release_slot(self, name: str) -> None:
        self._open_counts[name] -= 1
        if not self._open_counts[name]:
            del self._open_counts[name]

    def _resolve_client(self, connection: socket.socket) -> Client:
        if connection.family is socket.AF_UNIX:
            uid = read_peer_uid(connection)
            return Client(f"{_name_user(uid)} by socket", uid not in self._uids)
        endpoint = TcpEndpoint.from_socket_name(connection.getpeername())
        owner = self._owners.find_uid(
            endpoint, TcpEndpoint.from_socket_name(connection.getsockname())
        )
        if owner is not None:
            return Client(_name_user(owner), owner not in self._uids)
        if endpoint.address.is_loopback:
            return Client("this host", is_single=False)
        is_single = not any(endpoint.address in network for network in self._networks)
        return Client(to_client_name(endpoint.address), is_single)


def _name_user(uid: int) -> str:
    """Return a name for the uid. All uids without an account are one client.

    One user may have thousands of such uids.
    """
    return NO_ACCOUNT if find_user_name(uid) is None else f"uid {uid}"


def resolve_proxies(words: Iterable[str]) -> Proxies:
    """Return the proxies that the setting `service.proxies` names, and the usual accounts.

    Logs a name of the setting that belongs to nobody on this host.
    """
    uids, networks = set(), []
    for word in (*USUAL_PROXIES, *words):
        try:
            networks.append(ipaddress.ip_network(word, strict=False))
        except ValueError:
            uid = int(word) if word.isdecimal() else _find_uid(word)
            if uid is not None:
                uids.add(uid)
            elif word not in USUAL_PROXIES:
                _log.warning("service.proxies names a user that this host does not know", name=word)
    return Proxies(frozenset(uids), tuple(networks))


def _find_uid(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None
