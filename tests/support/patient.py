"""Requests as tests send them. How long an answer takes on a busy machine is nothing they test."""

import ssl
import time
from collections.abc import Callable
from typing import Any

import httpx

PATIENCE_S = 250.0
"""Of whoever waits for what must come: what hangs ends with the test's own time (pyproject.toml).
What tells early from late is further apart than this."""

NO_ISSUER = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For an httpx client's `verify` where nothing is asked over TLS: believes no certificate. Without,
each client reads all whom the world believes, which takes longer than most requests."""


def get(url: str, **how: Any) -> httpx.Response:
    return httpx.get(url, trust_env=False, timeout=PATIENCE_S, verify=NO_ISSUER, **how)


def post(url: str, **how: Any) -> httpx.Response:
    return httpx.post(url, trust_env=False, timeout=PATIENCE_S, verify=NO_ISSUER, **how)


def wait_until(
    reached: Callable[[], bool], otherwise: str = "", *, limit_s: float = PATIENCE_S
) -> None:
    """Return once `reached` is true; fail after `limit_s`, with the words of `otherwise`."""
    deadline = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < deadline, otherwise or f"not within {limit_s:.0f} s"
        time.sleep(0.05)
