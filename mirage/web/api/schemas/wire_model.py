"""Defines what all wire types share: answers are immutable, requests reject unknown keys."""

import json
from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class WireModel(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class RequestBody(BaseModel):
    """The body of a request. An unknown key is rejected, because it is the caller's mistake.

    So is a value of another JSON type: `true` and "4" are no numbers, and "no" is no boolean.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _reject_other_types(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        kinds = {field.annotation, *get_args(field.annotation)}
        if kinds & {int, float} and isinstance(value, bool | str):
            raise ValueError(f"must be a number, not {json.dumps(value)[:64]}")
        if bool in kinds and isinstance(value, int | float | str) and not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {json.dumps(value)[:64]}")
        return value

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
        for element in value:
            yield from _iter_texts(element)
