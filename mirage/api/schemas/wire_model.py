"""Defines what all wire types share: answers are immutable, requests reject unknown keys."""

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, field_validator


class WireModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class RequestBody(BaseModel):
    """The body of a request. An unknown key is rejected, because it is the caller's mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*")
    @classmethod
    def _reject_nul(cls, value: object) -> object:
        if any("\0" in text for text in _iter_texts(value)):  # PostgreSQL keeps none in a text
            raise ValueError("must not contain NUL")
        return value


def _iter_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _iter_texts(pair)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _iter_texts(one)
