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
    """The value as it was given, without its secrets."""
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
            meant = f": is {self.nearest!r} meant?" if self.nearest else ""
            return f"{where}unknown key {self.key!r}{meant}"
        if isinstance(self.value, dict):  # settings of one table that do not go together
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
        kept = {
            name: {k: v for k, v in value.items() if f"{name}.{k}" not in keys}
            if isinstance(value, dict)
            else value
            for name, value in self.data.items()
            if name not in keys
        }
        filled = {name: value for name, value in kept.items() if value != {}}
        return RawConfig(path=self.path, data=filled, lines=self.lines, variables=self.variables)


def read_raw_config(
    settings: type[BaseModel], path: Path | None, environ: Mapping[str, str] = os.environ
) -> RawConfig:
    """Read the file and the environment. Raises ConfigError for a file that cannot be read, or
    is not TOML."""
    data, lines = ({}, {}) if path is None else _read_file(path)
    set_by = {}
    for variable, spec in index_by_variable(settings).items():
        # An empty variable counts as not set, as in a shell.
        if text := environ.get(variable, ""):
            _put_value(data, spec.key, _parse_value(spec, text))
            set_by[spec.key] = variable
    for key in REMOVED_KEYS:
        if text := environ.get(name_variable(key), ""):
            _put_value(data, key, text)
            set_by[key] = name_variable(key)
    dropped = drop_unset_keys(data)
    return RawConfig(path=path, data=data, lines=lines, variables=set_by, dropped=dropped)


def validate_config(settings: type[ConfigModel], given: RawConfig) -> ConfigModel:
    """Check the values. Raises ConfigError, which lists every fault."""
    try:
        return settings.model_validate(given.data)
    except ValidationError as error:
        found = list_faults(settings, given, error)
        raise ConfigError(given.source, [str(fault) for fault in found]) from error


def list_faults(
    settings: type[BaseModel], given: RawConfig, error: ValidationError
) -> list[ConfigFault]:
    """List the faults: those of the environment first, then those of the file in the order of
    its lines."""
    known = collect_specs(settings)
    found = [
        _build_fault(known, collect_tables(settings), given, dict(detail))
        for detail in error.errors()
    ]
    return sorted(found, key=lambda fault: fault.line or 0)


def find_unknown_variables(
    settings: type[BaseModel], environ: Mapping[str, str] = os.environ
) -> list[ConfigFault]:
    """Find variables that begin like those of a table and set nothing. Somebody may rely on
    them."""
    known = index_by_variable(settings)
    begins = tuple(f"{PREFIX}{name.upper()}_" for name in collect_tables(settings))
    removed = {name_variable(key) for key in REMOVED_KEYS}  # `list_faults` names those
    strange = (
        name for name in environ.keys() - removed if name.startswith(begins) and name not in known
    )
    return [
        ConfigFault(
            key=name,
            said="sets nothing",
            nearest=_suggest_key(name, list(known)),
            variable=name,
            unknown=True,
        )
        for name in sorted(strange)
    ]


def find_key_lines(text: str) -> dict[str, int]:
    """Return, by key and table, the line where valid TOML text sets it.

    TOML parsers keep no positions.
    """
    found: dict[str, int] = {}
    table = ""
    for number, said in _split_statements(text):
        keys = [name for name, _ in _flatten_keys(said, "")]
        if isinstance(said, _Header):
            table = keys[-1]
            found.setdefault(table, number)
            continue
        for key in keys:
            found.setdefault(f"{table}.{key}" if table else key, number)
    return found


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
            said = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        header = pending.lstrip().startswith("[")
        pending = ""
        if said:
            yield first, _Header(said) if header else said


def _flatten_keys(said: Mapping[str, Any], under: str) -> Iterator[tuple[str, object]]:
    """Tables before what is in them."""
    for name, value in said.items():
        key = f"{under}{name}"
        yield key, value
        inner = value[0] if isinstance(value, list) and isinstance(said, _Header) else value
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
    inner = data.setdefault(table, {}) if table else data
    if isinstance(inner, dict):  # else the file's own fault is told
        inner[name] = value


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
    known: Mapping[str, SettingSpec],
    of: Mapping[str, object],
    given: RawConfig,
    detail: dict[str, Any],
) -> ConfigFault:
    keys = [str(key) for key in detail["loc"]]
    name = ".".join(keys)
    outward = [".".join(keys[:end]) for end in range(len(keys), 0, -1)]
    spec = next((known[key] for key in outward if key in known), None)
    line = next((given.lines[key] for key in outward if key in given.lines), None)
    variable = None if spec is None else given.variables.get(spec.key)
    if detail["type"] == "extra_forbidden" and (removed := find_removed_key(name)) is not None:
        inner, last = detail["input"], removed.rpartition(".")[2]
        return ConfigFault(
            key=removed,
            said=REMOVED_KEYS[removed],
            value=inner.get(last) if isinstance(inner, dict) else inner,
            line=None if removed in given.variables else given.lines.get(removed, line),
            variable=given.variables.get(removed),
        )
    if detail["type"] == "extra_forbidden":
        nearest = _suggest_key(name, [*known, *of])
        return ConfigFault(key=name, said="unknown key", nearest=nearest, line=line, unknown=True)
    said = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "model_type":
        said = f"{name} is a table, [{name}]"
    value = detail["input"]
    if isinstance(value, dict):  # of a whole table, which may hold secrets
        value = {key: _mask_secret(known.get(f"{name}.{key}"), part) for key, part in value.items()}
    return ConfigFault(
        key=name,
        said=said,
        value=_mask_secret(spec, value),
        allowed="" if spec is None else spec.allowed,
        line=None if variable else line,
        variable=variable,
    )


def _mask_secret(spec: SettingSpec | None, value: object) -> object:
    return value if spec is None else spec.mask_value(value)


def _suggest_key(name: str, known: list[str]) -> str | None:
    """Suggest the known key that is nearest, also one of another table."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if close:
        return close[0]
    last = {key.rpartition(".")[2]: key for key in known}
    bare = difflib.get_close_matches(name.rpartition(".")[2], list(last), n=1, cutoff=0.8)
    return last[bare[0]] if bare else None
