"""The configuration's reference, written from settings.py: its fields, defaults and docstrings."""

import ast
import inspect
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mirage import settings
from mirage.settings import CONFIG_PATH, Settings

_HEAD = f"""# Configuration

Written by `mirage config reference` from `mirage/settings.py`; do not edit.

One TOML file: `--config`, else the one that MIRAGE_CONFIG names, else `{CONFIG_PATH}` where there
is one. Every key may be left out, and so may the file. `mirage config check` names every fault at
once, `mirage config show` prints what is in force. A running service has read it at its start.
MIRAGE_DATABASE_URL goes before `database.url`.
"""
_COLUMNS = "| key | default | allowed | |\n|---|---|---|---|\n"


def reference() -> str:
    """The whole page."""
    plain = {name: info for name, info in Settings.model_fields.items() if not _is_table(info)}
    tables = {name: info for name, info in Settings.model_fields.items() if _is_table(info)}
    parts = [_HEAD, "\n## Before the first table\n\n", _table(Settings, plain)]
    for name, info in tables.items():
        section = _section(info)
        said = f"{section.__doc__}\n\n" if section.__doc__ else ""
        parts += [f"\n## [{name}]\n\n{said}", _table(section, section.model_fields)]
    return "".join(parts)


def _table(section: type[BaseModel], fields: dict[str, FieldInfo]) -> str:
    docs = dict(_docstrings(section))
    schema = section.model_json_schema()["properties"]
    rows = (
        f"| `{name}` | {_value(info.default)} | {_allowed(schema[name])} | {docs[name]} |\n"
        for name, info in fields.items()
    )
    return _COLUMNS + "".join(rows)


def _docstrings(section: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Each field of the class with the docstring below it, which Python itself does not keep."""
    tree = ast.parse(Path(inspect.getfile(settings)).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for field, doc in pairwise(classes[section.__name__].body):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr):
            yield ast.unparse(field.target), " ".join(ast.literal_eval(doc.value).split())


def _value(default: object) -> str:
    if default is None:
        return "unset"
    return f"`{json.dumps(default, default=str)}`"


def _allowed(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return "list of strings"
    kind = "string" if "anyOf" in schema else schema["type"]
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<="}
    bounds = [f"{sign} {schema[word]}" for word, sign in signs.items() if word in schema]
    return " ".join([kind, *bounds])


def _is_table(info: FieldInfo) -> bool:
    return isinstance(info.default, BaseModel)


def _section(info: FieldInfo) -> type[BaseModel]:
    return type(info.default)
