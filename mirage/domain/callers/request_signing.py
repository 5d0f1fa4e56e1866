"""Builds the text that a MUNGE credential signs for one request.

The text makes the credential good for nothing else.
"""

import hashlib

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
