"""Lets a MUNGE credential count once, whichever host's munged has read it.

munged remembers the credentials that it has read, but each host has a munged of its own.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable

from mirage.database.access import idempotency
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller
from mirage.errors import NotIdentified


def refuse_second_use(
    identify: Callable[..., Caller], store: Store, clock: Callable[[], int]
) -> Callable[..., Caller]:
    """Return `identify` for services on several hosts that share this database.

    The returned function raises NotIdentified for a credential that any of them has accepted.
    """

    def identify_once(credential: str, *payloads: str) -> Caller:
        caller = identify(credential, *payloads)
        with store.begin() as tx:
            if not idempotency.claim_credential(
                tx, caller.uid, _hash_credential(credential), clock()
            ):
                raise NotIdentified("the MUNGE credential was used before", caller.user)
        return caller

    return identify_once


def _hash_credential(credential: str) -> str:
    """Hash what the text encodes. Raises NotIdentified for a second spelling of the same bytes."""
    text = credential.removeprefix("MUNGE:").removesuffix(":").encode()
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        decoded = b""
    if not decoded or base64.b64encode(decoded) != text:
        raise NotIdentified("the credential is not as `munge` writes it")
    return hashlib.sha256(decoded).hexdigest()
