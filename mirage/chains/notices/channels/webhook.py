"""Sends JSON to a webhook by POST, signed so that the receiver knows the sender."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from mirage.chains.notices.channels import secret_files
from mirage.domain.callers.this_host import is_this_host
from mirage.errors import DeliveryError

TIMEOUT_S = 10.0
SIGNATURE = "Mirage-Signature"
"""`t=SECONDS,v1=HEX`: HMAC-SHA256 of `SECONDS.BODY` with the shared key."""
DELIVERY = "Mirage-Delivery"
"""A header with the same value for each try of one digest, so a receiver can skip repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    url_file: Path
    secret_file: Path | None = None

    def send(self, body: Mapping[str, Any], *, delivery: str, now: int) -> None:
        """Send the body. Raises DeliveryError for any answer but 2xx; follows no redirect."""
        url = self.read_url()
        key = "" if self.secret_file is None else secret_files.read_secret(self.secret_file)
        content = json.dumps(body, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", DELIVERY: delivery}
        if key:
            headers[SIGNATURE] = sign_body(key, content, now)
        try:
            # Ignore proxies and credentials of the environment.
            with httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as http:
                answer = http.post(url, content=content, headers=headers)
        except (httpx.HTTPError, OSError) as error:
            reason = secret_files.redact_secrets(
                str(error) or type(error).__name__, str(url), url.path, key
            )
            raise DeliveryError(f"webhook at {url.host}: {reason}") from None
        if not answer.is_success:
            raise DeliveryError(f"webhook at {url.host}: the answer was {answer.status_code}")

    def read_url(self) -> httpx.URL:
        """Return the address, whose path may be a secret.

        Raises DeliveryError for an address that is not encrypted, unless it is on this host.
        """
        return validate_url(secret_files.read_secret(self.url_file), str(self.url_file))


def validate_url(text: str, where: str) -> httpx.URL:
    """Return the address in `text`; messages call it `where`. Raises DeliveryError."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise DeliveryError(f"{where} contains no URL") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise DeliveryError(f"{where} contains no http or https address")
    if url.userinfo:
        raise DeliveryError(f"{where}: remove name and password, which logs would show")
    if url.scheme == "http" and not is_this_host(url.host):
        raise DeliveryError(f"{where}: {url.host} is not this host, so the address must be https")
    return url


def sign_body(key: str, body: bytes, at: int) -> str:
    """Return the signature of a body, which a receiver computes anew and compares."""
    digest = hmac.new(key.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
