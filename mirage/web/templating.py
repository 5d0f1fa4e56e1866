"""Jinja2, told what templates may call; everything is escaped but what is made as Markup."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mirage.web import assets, formatting


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("mirage.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "when": formatting.when,
        "clock": formatting.clock,
        "age": formatting.age,
        "span": formatting.span,
        "hours": formatting.hours,
        "count": formatting.count,
        "coded": formatting.coded,
    }
    return made


def render(template: str, root_path: str, **values: Any) -> str:
    """`url(path)` and `asset(name)` of a template are below `root_path`."""
    return (
        _environment()
        .get_template(template)
        .render(
            url=lambda path: root_path + path,
            asset=lambda name: root_path + assets.address(name),
            **values,
        )
    )
