"""Idempotency-Key: the repeat of a request that changed something gets the first answer.

Its answer is stored in the transaction of what it changed, so there is either both or neither.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Key:
    """A request with its key, if it has one."""

    tx: Transaction
    uid: int
    text: str | None
    fingerprint: str
    now: int
    status: int

    def once(self, make: Callable[[], Made]) -> Made:
        """What `make` answers; a repeat does nothing and is given the first answer (RepeatError).

        Raises ProblemError where the key was another request's, or its answer is being made.
        """
        if self.text is None:
            return make()
        known = idempotency.find(self.tx, self.uid, self.text, now=self.now)
        if known is not None and known.fingerprint != self.fingerprint:
            raise ProblemError(
                KEY_REUSED, "this Idempotency-Key stands for a request with other words"
            )
        if known is not None:
            raise RepeatError(known)
        made = make()
        body = made.model_dump_json()
        answer = Answer(fingerprint=self.fingerprint, status=self.status, body=body)
        if not idempotency.remember(self.tx, self.uid, self.text, answer=answer, now=self.now):
            raise ProblemError(CONFLICT, "the same request is being answered: repeat it")
        return made


def _key(
    *,
    request: Request,
    given: Context,
    who: Writer,
    body: Body,
    tx: Writing,
    idempotency_key: Annotated[
        str | None,
        Header(max_length=255, description="A repeat within a day gets the first answer."),
    ] = None,
) -> Key:
    words = f"{request.method} {request.url.path} {who.user}\n".encode()
    status = request.scope["route"].status_code or 200
    return Key(
        tx=tx,
        uid=who.uid,
        text=idempotency_key,
        fingerprint=hashlib.sha256(words + body).hexdigest(),
        now=given.clock(),
        status=status,
    )


Once = Annotated[Key, Depends(_key)]
"""What every POST asks for."""
