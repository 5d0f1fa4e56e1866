"""Handles Idempotency-Key: a repeated request changes nothing again.

Only a digest of the first request is kept, stored in the same transaction as the request's change.
A repeat gets a fresh answer, with the rights that its caller has now.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request, Response

from mirage.database.access import idempotency
from mirage.database.schema.engine import Transaction
from mirage.web.shared import quota
from mirage.web.shared.dependencies import Body, Context, Writer, Writing
from mirage.web.shared.problems import CONFLICT, KEY_REUSED, ProblemError

REPLAYED = "Idempotency-Replayed"

RequestResult = TypeVar("RequestResult")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request that may be a repeat."""

    cluster_id: int
    uid: int
    key: str | None
    fingerprint: str
    now: int

    def claim_key(self, tx: Transaction) -> bool:
        """Return whether this request is the first with its key.

        If another request with the same key is being answered, the call waits for it, because that
        request may change what this one would change. Raises ProblemError if the key belongs to a
        different request.
        """
        if self.key is None:
            return True
        if idempotency.claim_key(
            tx, self.cluster_id, self.uid, self.key, fingerprint=self.fingerprint, now=self.now
        ):
            return True
        first_fingerprint = idempotency.find_fingerprint(
            tx, self.cluster_id, self.uid, self.key, now=self.now
        )
        if first_fingerprint is None:
            raise ProblemError(CONFLICT, "the same request is being answered: repeat it later")
        if first_fingerprint != self.fingerprint:
            message = "this Idempotency-Key belongs to a different request: use a new key"
            raise ProblemError(KEY_REUSED, message)
        return False


def _build_idempotent_request(
    *,
    request: Request,
    context: Context,
    writer: Writer,
    body: Body,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=255,
            description="A key that you choose. A request that repeats it within a day changes "
            "nothing again.",
        ),
    ] = None,
) -> IdempotentRequest:
    # The account is part of the digest, because tokens without a user share a uid.
    account = quota.get_quota_holder(request).name
    identity = f"{request.method} {request.url.path} {account}\n".encode()
    return IdempotentRequest(
        cluster_id=context.cluster_id,
        uid=writer.uid,
        key=idempotency_key,
        fingerprint=hashlib.sha256(identity + body).hexdigest(),
        now=context.clock(),
    )


@dataclass(frozen=True, slots=True)
class IdempotentTransaction:
    """A request and its transaction, in which the change and the key are stored together."""

    request: IdempotentRequest
    tx: Transaction
    response: Response

    def run_once(
        self, make: Callable[[], RequestResult], repeat: Callable[[], RequestResult]
    ) -> RequestResult:
        """Return the result of `make`; for a repeated request, the result of `repeat`.

        `repeat` changes nothing and requires the same rights as `make`.
        """
        if self.request.claim_key(self.tx):
            return make()
        self.response.headers[REPLAYED] = "true"
        return repeat()


def _build_idempotent_transaction(
    keyed_request: Annotated[IdempotentRequest, Depends(_build_idempotent_request)],
    tx: Writing,
    response: Response,
) -> IdempotentTransaction:
    return IdempotentTransaction(keyed_request, tx, response)


Idempotency = Annotated[IdempotentTransaction, Depends(_build_idempotent_transaction)]
"""The parameter by which every POST route handles repeated requests."""
