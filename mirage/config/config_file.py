"""Reads settings from a TOML file and the environment, with the place of each value, and lists
all faults."""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mirage.config.removed_keys import REMOVED_KEYS, drop_unset_keys, find_removed_key
from mirage.config.schema import (
    PREFIX,
    SettingSpec,
    collect_specs,
    collect_tables,
    index_by_variable,
    name_variable,
)
from mirage.errors import ConfigError

ConfigModel = TypeVar("ConfigModel", bound=BaseModel)

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFault:
    """One fault of the configuration."""

    key: str
    said: str
    """What is wrong with the value."""
    value: object = None
    """The value in the file or the variable, without its secrets."""
    allowed: str = ""
    nearest: str | None = None
    """For an unknown key: the known key that may be meant."""
    line: int | None = None
    variable: str | None = None
    """The name of the variable, if a variable of the environment set the value."""
    unknown: bool = False

    def __str__(self) -> str:
        where = f"{self.variable}: " if self.variable else f"line {self.line}: " * bool(self.line)
        if self.unknown:
            suggestion = f": is {self.nearest!r} meant?" if self.nearest else ""
            return f"{where}unknown key {self.key!r}{suggestion}"
        if isinstance(self.value, dict):  # settings of one table that exclude each other
            return f"{where}[{self.key}]: {self.said}"
        allowed = f" (allowed: {self.allowed.replace('`', '')})" if self.allowed else ""
        return f"{where}{self.key} = {self.value!r}: {self.said}{allowed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawConfig:
    """The unchecked values from the file and the environment."""

    path: Path | None = None
    data: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of the file that sets each key and table."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variable of the environment that sets each key."""
    dropped: tuple[str, ...] = ()
    """The keys of earlier releases that were named without a value, and are left out of `data`."""

    @property
    def source(self) -> str:
        return "the environment" if self.path is None else str(self.path)

    def find_origin(self, key: str) -> str:
        """`default`, `FILE:LINE`, or the name of a variable."""
        if key in self.variables:
            return self.variables[key]
        line = self.lines.get(key)
        return DEFAULT if line is None else f"{self.path}:{line}"

    def drop_keys(self, keys: set[str]) -> "RawConfig":
        """Return a copy without these keys, as if they had been left out."""
        remaining = {
            name: {k: v for k, v in value.items() if f"{name}.{k}" not in keys}
            if isinstance(value, dict)
            else value
            for name, value in self.data.items()
            if name not in keys
        }
        non_empty = {name: value for name, value in remaining.items() if value != {}}
        return RawConfig(path=self.path, data=non_empty, lines=self.lines, variables=self.variables)


def read_raw_config(
    settings: type[BaseModel], path: Path | None, environ: Mapping[str, str] = os.environ
) -> RawConfig:
    """Read the file and the environment. Raises ConfigError for a file that cannot be read, or
    is not TOML."""
    data, lines = ({}, {}) if path is None else _read_file(path)
    variables = {}
    for variable, spec in index_by_variable(settings).items():
        # An empty variable counts as not set, as in a shell.
        if text := environ.get(variable, ""):
            _put_value(data, spec.key, _parse_value(spec, text))
            variables[spec.key] = variable
    for key in REMOVED_KEYS:
        if text := environ.get(name_variable(key), ""):
            _put_value(data, key, text)
            variables[key] = name_variable(key)
    dropped = drop_unset_keys(data)
    return RawConfig(path=path, data=data, lines=lines, variables=variables, dropped=dropped)


def validate_config(settings: type[ConfigModel], raw: RawConfig) -> ConfigModel:
    """Check the values. Raises ConfigError, which lists every fault."""
    try:
        return settings.model_validate(raw.data)
    except ValidationError as error:
        faults = list_faults(settings, raw, error)
        raise ConfigError(raw.source, [str(fault) for fault in faults]) from error


def list_faults(
    settings: type[BaseModel], raw: RawConfig, error: ValidationError
) -> list[ConfigFault]:
    """List the faults: those of the environment first, then those of the file in the order of
    its lines."""
    specs = collect_specs(settings)
    faults = [
        _build_fault(specs, collect_tables(settings), raw, dict(detail))
        for detail in error.errors()
    ]
    return sorted(faults, key=lambda fault: fault.line or 0)


def find_unknown_variables(
    settings: type[BaseModel], environ: Mapping[str, str] = os.environ
) -> list[ConfigFault]:
    """Find variables that begin like those of a table and set nothing. They are faults because
    somebody may believe that they work."""
    key_by_variable = index_by_variable(settings)
    prefixes = tuple(f"{PREFIX}{name.upper()}_" for name in collect_tables(settings))
    removed = {name_variable(key) for key in REMOVED_KEYS}  # `list_faults` names those
    unknown = (
        name
        for name in environ.keys() - removed
        if name.startswith(prefixes) and name not in key_by_variable
    )
    return [
        ConfigFault(
            key=name,
            said="sets nothing",
            nearest=_suggest_key(name, list(key_by_variable)),
            variable=name,
            unknown=True,
        )
        for name in sorted(unknown)
    ]


def find_key_lines(text: str) -> dict[str, int]:
    """Return, by key and table, the line where valid TOML text sets it.

    Python's TOML parser keeps no positions, so the text is parsed statement by statement.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, statement in _split_statements(text):
        keys = [name for name, _ in _flatten_keys(statement, "")]
        if isinstance(statement, _Header):
            table = keys[-1]
            lines.setdefault(table, number)
            continue
        for key in keys:
            lines.setdefault(f"{table}.{key}" if table else key, number)
    return lines


class _Header(dict[str, Any]):
    """The content of a line that begins a table."""


def _split_statements(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each statement's first line and its own content.

    A value may span several lines.
    """
    pending, first = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        first = first if pending else number
        pending += f"{line}\n"
        try:
            statement = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        is_header = pending.lstrip().startswith("[")
        pending = ""
        if statement:
            yield first, _Header(statement) if is_header else statement


def _flatten_keys(statement: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield each key with its table, and its value; a table comes before the keys in it."""
    for name, value in statement.items():
        key = f"{prefix}{name}"
        yield key, value
        inner = value[0] if isinstance(value, list) and isinstance(statement, _Header) else value
        if isinstance(inner, dict):
            yield from _flatten_keys(inner, f"{key}.")


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), find_key_lines(text)
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"not UTF-8: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), [f"not TOML: {error}"]) from error


def _put_value(data: dict[str, Any], key: str, value: object) -> None:
    table, _, name = key.rpartition(".")
    section = data.setdefault(table, {}) if table else data
    # If the file sets the table's name to a plain value, the validation reports that fault.
    if isinstance(section, dict):
        section[name] = value


def _parse_value(spec: SettingSpec, text: str) -> object:
    """Parse a variable's text as TOML: numbers, booleans and lists. A list may also be words
    with commas between them."""
    if spec.kind in {"string", "path"}:
        return text
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return [part.strip() for part in text.split(",")] if spec.kind == "list" else text


def _build_fault(
    specs: Mapping[str, SettingSpec],
    tables: Mapping[str, object],
    raw: RawConfig,
    detail: dict[str, Any],
) -> ConfigFault:
    """Build the fault of one pydantic error; `detail` has its type, location and message."""
    keys = [str(key) for key in detail["loc"]]
    name = ".".join(keys)
    # The error may lie inside a value: the innermost key that is a setting counts.
    outward = [".".join(keys[:end]) for end in range(len(keys), 0, -1)]
    spec = next((specs[key] for key in outward if key in specs), None)
    line = next((raw.lines[key] for key in outward if key in raw.lines), None)
    variable = None if spec is None else raw.variables.get(spec.key)
    if detail["type"] == "extra_forbidden" and (removed := find_removed_key(name)) is not None:
        inner, last = detail["input"], removed.rpartition(".")[2]
        return ConfigFault(
            key=removed,
            said=REMOVED_KEYS[removed],
            value=inner.get(last) if isinstance(inner, dict) else inner,
            line=None if removed in raw.variables else raw.lines.get(removed, line),
            variable=raw.variables.get(removed),
        )
    if detail["type"] == "extra_forbidden":
        nearest = _suggest_key(name, [*specs, *tables])
        return ConfigFault(key=name, said="unknown key", nearest=nearest, line=line, unknown=True)
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "model_type":
        message = f"{name} is a table, [{name}]"
    value = detail["input"]
    if isinstance(value, dict):  # a whole table, which may hold secrets
        value = {key: _mask_secret(specs.get(f"{name}.{key}"), part) for key, part in value.items()}
    return ConfigFault(
        key=name,
        said=message,
        value=_mask_secret(spec, value),
        allowed="" if spec is None else spec.allowed,
        line=None if variable else line,
        variable=variable,
    )


def _mask_secret(spec: SettingSpec | None, value: object) -> object:
    return value if spec is None else spec.mask_value(value)


def _suggest_key(name: str, known_keys: list[str]) -> str | None:
    """Suggest the known key that is nearest, also one of another table."""
    matches = difflib.get_close_matches(name, known_keys, n=1, cutoff=0.75)
    if matches:
        return matches[0]
    by_last_word = {key.rpartition(".")[2]: key for key in known_keys}
    last_word = name.rpartition(".")[2]
    matches = difflib.get_close_matches(last_word, list(by_last_word), n=1, cutoff=0.8)
    return by_last_word[matches[0]] if matches else None
