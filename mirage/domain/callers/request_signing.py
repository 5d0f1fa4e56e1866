"""Builds the text that a MUNGE credential signs for one request.

The text makes the credential good for nothing else.
"""

import hashlib

SERVICE = "mirage"
"""The service for which a credential is made, beside the cluster's name. A credential for another
service is refused."""


def build_signed_text(method: str, target: str, body: bytes, cluster: str) -> str:
    """`target`: the path with its query. `cluster`: of the service, in any case of its letters.

    A client knows the name by its own configuration or Slurm's (slurm_plugin/mirage_service.py),
    never by the word of whoever it asks.
    """
    return f"{build_unnamed_text(method, target, body)} {cluster.lower()} {SERVICE}"


def build_unnamed_text(method: str, target: str, body: bytes) -> str:
    """Build the text of plugins before this release, which is good at every service with this
    key."""
    return f"{method} {target} {hashlib.sha256(body).hexdigest()}"
