"""Knows the host names to which the service answers.

A foreign name can point to this service (DNS rebinding). A browser then takes this service for
the foreign site, and lets that site's scripts read the answers.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?")
"""The header Host (RFC 9110, 7.2) as browsers send it."""
_LOOPBACK = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The host names to which the service answers, in lower case without a final dot."""

    names: frozenset[str] = frozenset(_LOOPBACK)
    https: frozenset[str] = frozenset()
    """The names that browsers reach by https alone."""

    def is_own_host(self, host: str) -> bool:
        """Return whether a Host header names this service.

        Every IP address is accepted: a browser that shows an address was not led here by a foreign
        name. Behind a container's port the address is not one of this machine.
        """
        name = _parse_host_name(host)
        return name in self.names or _is_address(name)

    def is_https_host(self, host: str) -> bool:
        return _parse_host_name(host) in self.https


def build_hosts(machine_names: Iterable[str], origins: Iterable[str]) -> Hosts:
    """Build the hosts from this machine's names and the URLs of the setting `service.origins`.

    Loopback's names are always among them.
    """
    urls = [urlsplit(origin) for origin in origins]
    origin_names = {url.hostname or "" for url in urls}
    https = frozenset(url.hostname or "" for url in urls if url.scheme == "https")
    names = {name.lower().rstrip(".") for name in machine_names} | origin_names
    return Hosts(frozenset(_LOOPBACK) | names - {""}, https)


def list_machine_names() -> set[str]:
    """Return the names that this machine gives itself, short and long."""
    name = socket.gethostname()
    return {name, name.partition(".")[0], socket.getfqdn(name)}


def _parse_host_name(host: str) -> str:
    match = _HOST.fullmatch(host)
    return "" if match is None else (match["six"] or match["name"]).lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
