"""Hyper-parameters: the shipped defaults, and a file that changes some of them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mirage.errors import InputError

Hyperparameters = Mapping[str, Any]
"""The settings of one table, by name."""

_SHARES = frozenset(
    {"blind", "dropout", "exploration", "features", "gae", "held_back", "sample"},
)
_POSITIVE = frozenset(
    {"asked", "batch", "buffer", "depth", "envs", "experts", "features", "heads", "held_back"}
    | {"leaf", "n_steps", "rate", "sample", "steps", "target_every", "trees", "updates", "width"},
)


@cache
def load_defaults() -> Mapping[str, Hyperparameters]:
    """Load the defaults by table. settings.toml beside this file describes each number."""
    return tomllib.loads(files("mirage.lab.training").joinpath("settings.toml").read_text("utf-8"))


def load_settings(path: Path | None) -> Mapping[str, Hyperparameters]:
    """Load the settings: the defaults, with the changes of the file.

    Raises InputError if the file cannot be read or is not TOML, or if it names an unknown setting
    or gives another kind of value.
    """
    if path is None:
        return load_defaults()
    try:
        changes = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    for table, values in changes.items():
        _check_table(path, table, values)
    return {
        name: {**defaults, **changes.get(name, {})} for name, defaults in load_defaults().items()
    }


def _check_table(path: Path, table: str, values: Any) -> None:
    if table not in load_defaults() or not isinstance(values, dict):
        raise InputError(f"{path}: there is no table [{table}] of settings")
    for name, value in values.items():
        if name not in load_defaults()[table]:
            raise InputError(f"{path}: [{table}] has no setting {name}")
        default = load_defaults()[table][name]
        if not _is_alike(default, value):
            raise InputError(
                f"{path}: [{table}] {name} should be a value like {default!r}, not {value!r}"
            )
        if name in _POSITIVE and value == 0:
            raise InputError(f"{path}: [{table}] {name} must be above 0")
        if name in _SHARES and value > 1:
            raise InputError(
                f"{path}: [{table}] {name} is a share and must be at most 1, not {value!r}"
            )


def _is_alike(default: Any, value: Any) -> bool:
    """Return whether the value is of the same kind. Numbers must not be negative, and a whole
    number may stand for a fraction."""
    kinds = (int, float) if isinstance(default, float) else (type(default),)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    return isinstance(value, str) or value >= 0
