"""Describes every key of a class of settings: its type, bounds, unit, default, meaning and
variable."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

PREFIX = "MIRAGE_"
"""The first part of the names of Mirage's variables. Variables override the file."""

SECRET: JsonDict = {"secret": True}
"""Marks a field, as `json_schema_extra`, whose value is shown to nobody."""

_UNITS = (
    ("_node_h", "node-hours"),
    ("_h", "hours"),
    ("_s", "seconds"),
    ("_mib", "MiB"),
    ("_gib", "GiB"),
)
_SIGNS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_PASSWORD = re.compile(r"(://[^\s/@:]*):[^\s/@]*@")


class Section(BaseModel):
    """A table of keys. An unknown key is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """One key, named with its table: `polling.queue_s`."""

    key: str
    kind: str
    """string, path, integer, number, boolean, list."""
    allowed: str
    """The bounds in words; empty: any value of the type."""
    default: object
    meaning: str
    secret: bool

    @property
    def unit(self) -> str:
        """Return the unit that the last word of the key names.

        Returns an empty string for a plain number and for words.
        """
        return next((unit for end, unit in _UNITS if self.key.endswith(end)), "")

    @property
    def variable(self) -> str:
        return name_variable(self.key)

    def mask_value(self, value: object) -> object:
        """Return the value, or the part of it that anybody may see."""
        if value is None or value in ("", (), []):
            return value
        return "***" if self.secret else _mask_password(value)


def name_variable(key: str) -> str:
    """Return the variable of the environment that sets the key."""
    return PREFIX + key.upper().replace(".", "_")


def collect_tables(settings: type[BaseModel]) -> Mapping[str, type[BaseModel]]:
    """Return the tables by name, without the keys before the first table."""
    fields = settings.model_fields.items()
    return {name: type(info.default) for name, info in fields if _is_table(info)}


def collect_specs(settings: type[BaseModel]) -> Mapping[str, SettingSpec]:
    """Return the settings by key; those before the first table come first."""
    plain = {name: info for name, info in settings.model_fields.items() if not _is_table(info)}
    specs = list(_build_specs(settings, plain, ""))
    for name, section in collect_tables(settings).items():
        specs += _build_specs(section, section.model_fields, f"{name}.")
    return {spec.key: spec for spec in specs}


def index_by_variable(settings: type[BaseModel]) -> Mapping[str, SettingSpec]:
    """Return the settings by the environment variable that sets each."""
    return {spec.variable: spec for spec in collect_specs(settings).values()}


def _mask_password(value: object) -> object:
    if isinstance(value, str | Path):
        return _PASSWORD.sub(r"\1:***@", str(value))
    if isinstance(value, list | tuple):
        return [_mask_password(part) for part in value]
    return value


def _build_specs(
    section: type[BaseModel], fields: Mapping[str, FieldInfo], prefix: str
) -> Iterator[SettingSpec]:
    docs = dict(_read_docstrings(section))
    properties = section.model_json_schema()["properties"]
    for name, info in fields.items():
        schema = _resolve_optional(properties[name])
        is_secret = bool(schema.get("secret") or schema.get("writeOnly"))
        yield SettingSpec(
            key=f"{prefix}{name}",
            kind=_describe_kind(schema),
            allowed=_describe_allowed(schema),
            default=info.default,
            meaning=docs.get(name, ""),
            secret=is_secret or isinstance(info.default, SecretStr),
        )


def _resolve_optional(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an optional value's schema with the properties that apply if it is set."""
    alternatives = (part for part in schema.get("anyOf", ()) if part.get("type") != "null")
    return {**dict(next(alternatives, {})), **schema}


def _describe_kind(schema: Mapping[str, Any]) -> str:
    kind = "list" if schema.get("type") == "array" else str(schema.get("type", "string"))
    return "path" if schema.get("format") == "path" else kind


def _describe_allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "enum" in schema.get("items", {}):
        return "some of " + ", ".join(f"`{word}`" for word in schema["items"]["enum"])
    bounds = [f"{sign} {schema[word]}" for word, sign in _SIGNS.items() if word in schema]
    if "pattern" in schema:
        bounds.append(f"matches `{schema['pattern']}`")
    if "maxLength" in schema:
        bounds.append(f"{schema.get('minLength', 0)} to {schema['maxLength']} characters")
    return ", ".join(bounds)


def _read_docstrings(section: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Map each field of the class to the docstring below it, which Python itself does not keep."""
    source = Path(inspect.getfile(sys.modules[section.__module__]))
    tree = ast.parse(source.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for field, doc in pairwise(classes[section.__name__].body):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr):
            assert isinstance(field.target, ast.Name)  # noqa: S101 - of a class of fields
            yield field.target.id, " ".join(ast.literal_eval(doc.value).split())


def _is_table(info: FieldInfo) -> bool:
    return isinstance(info.default, BaseModel)
