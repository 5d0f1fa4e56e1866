"""Idempotency-Key: the repeat of a request that changed something gets the first answer.

Its answer is stored in the transaction of what it changed, so there is either both or neither.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel

from mirage.api.deps import Body, Context, Writer, Writing
from mirage.api.problems import CONFLICT, KEY_REUSED, ProblemError
from mirage.store import idempotency
from mirage.store.engine import Transaction
from mirage.store.idempotency import Answer

REPLAYED = "Idempotency-Replayed"

Made = TypeVar("Made", bound=BaseModel)


@dataclass
class RepeatError(Exception):
    """Not an error to the caller: the first answer is given again (`replayed`)."""

    first: Answer


def replayed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RepeatError)  # noqa: S101 - installed for it alone
    first, headers = error.first, {REPLAYED: "true"}
    return Response(first.body, first.status, headers=headers, media_type="application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A request that may be a repeat."""

    uid: int
    key: str | None
    fingerprint: str
    now: int
    status: int

    def claim(self, tx: Transaction) -> None:
        """Raises RepeatError with the first answer, and ProblemError for another request's key.

        One that is being answered is waited for: it may have changed what this one would change.
        """
        if self.key is None:
            return
        if idempotency.claim(tx, self.uid, self.key, fingerprint=self.fingerprint, now=self.now):
            return
        known = idempotency.find(tx, self.uid, self.key, now=self.now)
        if known is None:
            raise ProblemError(CONFLICT, "the same request is being answered: repeat it")
        if known.fingerprint != self.fingerprint:
            said = "this Idempotency-Key stands for a request with other words"
            raise ProblemError(KEY_REUSED, said)
        raise RepeatError(known)

    def keep(self, tx: Transaction, made: BaseModel) -> None:
        if self.key is not None:
            body = made.model_dump_json()
            answer = Answer(fingerprint=self.fingerprint, status=self.status, body=body)
            idempotency.keep(tx, self.uid, self.key, answer)


def _words(
    *,
    request: Request,
    given: Context,
    who: Writer,
    body: Body,
    idempotency_key: Annotated[
        str | None,
        Header(max_length=255, description="A repeat within a day gets the first answer."),
    ] = None,
) -> Words:
    words = f"{request.method} {request.url.path} {who.user}\n".encode()
    return Words(
        uid=who.uid,
        key=idempotency_key,
        fingerprint=hashlib.sha256(words + body).hexdigest(),
        now=given.clock(),
        status=request.scope["route"].status_code or HTTPStatus.OK,
    )


Asked = Annotated[Words, Depends(_words)]


@dataclass(frozen=True, slots=True)
class InOne:
    """Done and remembered in one transaction: both or neither."""

    words: Words
    tx: Transaction

    def once(self, make: Callable[[], Made]) -> Made:
        """What `make` answers; a repeat does nothing and is given the first answer."""
        self.words.claim(self.tx)
        made = make()
        self.words.keep(self.tx, made)
        return made


def _in_one(words: Asked, tx: Writing) -> InOne:
    return InOne(words, tx)


Once = Annotated[InOne, Depends(_in_one)]
"""What every POST asks for."""
