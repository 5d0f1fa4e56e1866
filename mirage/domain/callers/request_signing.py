"""Builds the text that a credential of MUNGE or of Slurm's socket holds for one request.

The text makes the credential good for nothing else.
"""

import hashlib
import re

SERVICE = "mirage"
"""The service for which a credential is made, beside the cluster's name. A credential for another
service is refused."""


def build_signed_text(method: str, target: str, body: bytes, cluster: str) -> str:
    """Build the text: method, target, hash of the body, cluster and `SERVICE`.

    `target`: the path with its query. `cluster`: the name of the service's cluster, in upper or
    lower case. A client must take the name from its own or Slurm's configuration
    (mirage_slurm/client/service.py), never from an answer of the service that it asks. Otherwise a
    false service could get a credential that is good at the real one.
    """
    return f"{build_unnamed_text(method, target, body)} {cluster.lower()} {SERVICE}"


def build_unnamed_text(method: str, target: str, body: bytes) -> str:
    """Build the text of plugins before this release, which is good at every service with this
    key."""
    return f"{method} {target} {hashlib.sha256(body).hexdigest()}"


_REQUEST = re.compile(r"(?s:.*) [0-9a-f]{64}")
_RECIPIENT = re.compile(r" ([\w.-]{1,40}) [\w.-]{1,40}")


def explain_difference(signed_text: str, expected_text: str) -> str:
    """Say in a few words for what a credential was made that was not made for this request."""
    request = _REQUEST.match(expected_text)
    if request is None or not signed_text.startswith(request[0]):
        return "was made for another request"
    if signed_text == request[0]:
        return "names no cluster: its client is older than this service"
    recipient = _RECIPIENT.fullmatch(signed_text.removeprefix(request[0]))
    return f"was made for another service ({recipient[0].strip() if recipient else 'of no name'})"
