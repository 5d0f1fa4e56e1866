"""The configuration's reference, written from settings.py: its fields, defaults and docstrings."""

import inspect
import json
from collections.abc import Iterable

from mirage.config.schema import SettingSpec, collect_specs, collect_tables
from mirage.config.settings import CONFIG_PATH, Settings

_HEAD = f"""# Configuration

Written by `mirage config reference` from `mirage/config/settings.py`; do not edit.

One TOML file: `--config`, else the one that MIRAGE_CONFIG names, else `{CONFIG_PATH}` where there
is one. Every key may be left out, and so may the file. The variable of a key goes before the file;
an empty one counts as left out, a list is written as in TOML or as words between commas. A user's
own service (`mirage serve --user`) hears none of them. A running service has read all at its start.

- `mirage config check [FILE] [--json]` names every fault at once: the key, its value, what is
  allowed, the key that may be meant. Exit codes: 0 nothing wrong (what may not be meant is told as
  a warning), 2 a fault.
- `mirage config show [--origin] [--json]` prints what is in force, and with `--origin` where each
  value comes from: `default`, FILE:LINE or a variable. Passwords and secrets are never shown.
"""
_COLUMNS = "| key | type | unit | default | allowed | variable | |\n|---|---|---|---|---|---|---|\n"


def render_reference() -> str:
    """The whole page."""
    known = collect_specs(Settings).values()
    plain = [knob for knob in known if "." not in knob.key]
    parts = [_HEAD, "\n## Before the first table\n\n", _render_table(plain)]
    for name, section in collect_tables(Settings).items():
        said = f"{inspect.cleandoc(section.__doc__)}\n\n" if section.__doc__ else ""
        inside = [knob for knob in known if knob.key.startswith(f"{name}.")]
        parts += [f"\n## [{name}]\n\n{said}", _render_table(inside)]
    return "".join(parts)


def _render_table(given: Iterable[SettingSpec]) -> str:
    return _COLUMNS + "".join(_render_row(knob) for knob in given)


def _render_row(knob: SettingSpec) -> str:
    cells = (
        f"`{knob.key.rpartition('.')[2]}`",
        knob.kind,
        knob.unit,
        "unset" if knob.default is None else f"`{json.dumps(knob.default, default=str)}`",
        knob.allowed.replace("|", "\\|"),
        f"`{knob.variable}`",
        knob.meaning,
    )
    return f"| {' | '.join(cells)} |\n"
