"""Checks the address of public keys, which must come as their owner sent them."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from mirage.domain.access.this_host import is_this_host


def _check_key_url(url: str) -> str:
    """Refuse an address whose keys anybody between the hosts could replace by their own."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        raise ValueError("that is no URL") from None
    if not url.startswith("https:") and not is_this_host(host):
        raise ValueError(f"{host or url} is not this host, so the address must be https")
    return url


KeyUrl = Annotated[str, Field(pattern=r"^https?://[^\s]+$"), AfterValidator(_check_key_url)]
