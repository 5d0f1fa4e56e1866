"""Sets up Jinja2 and the filters of the templates. Everything but Markup is escaped."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mirage.web import assets, formatting


@cache
def _build_environment() -> Environment:
    made = Environment(
        loader=PackageLoader("mirage.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "when": formatting.render_instant,
        "clock": formatting.format_clock,
        "span": formatting.render_span,
        "duration": formatting.format_duration,
        "hours": formatting.format_hours,
        "count": formatting.format_count,
        "coded": formatting.render_code,
    }
    return made


def render_template(template: str, root_path: str, **values: Any) -> str:
    """Render a template. In it `url(path)` and `asset(name)` return addresses below `root_path`."""
    return (
        _build_environment()
        .get_template(template)
        .render(
            url=lambda path: root_path + path,
            asset=lambda name: root_path + assets.get_asset_path(name),
            **values,
        )
    )
