"""Recognizes names and addresses of this host: data that is sent there crosses no network."""

from ipaddress import ip_address


def is_this_host(host: str) -> bool:
    """Return whether the host of a URL is certainly this one: `localhost` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
