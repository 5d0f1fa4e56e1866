"""Reads the parameters of a command from its function's annotations.

Typer's own records of them differ between its versions.
"""

from collections.abc import Callable
from enum import Enum
from inspect import unwrap
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

_KINDS = {int: "INTEGER", float: "FLOAT", Path: "PATH", str: "TEXT"}


def get_parameter_types(callback: Callable[..., Any] | None) -> dict[str, Any]:
    """Return each parameter's type by name, without its annotations for typer."""
    return {} if callback is None else get_type_hints(unwrap(callback))


def list_choices(declared: Any) -> list[str] | None:
    """Return the words that the parameter accepts, or None if it accepts any word."""
    for inner in (declared, *get_args(declared)):
        if isinstance(inner, type) and issubclass(inner, Enum):
            return [str(member.value) for member in inner]
        if get_origin(inner) is Literal:
            return [str(word) for word in get_args(inner)]
    return None


def format_kind(declared: Any) -> str:
    """Return the placeholder for a value of this type in usage lines."""
    if list_choices(declared) is not None:
        return "WORD"
    kinds = (_KINDS.get(inner) for inner in (declared, *get_args(declared)))
    return next((name for name in kinds if name is not None), "VALUE")
