"""Builds the OpenAPI document that is committed as docs/openapi.json.

`python -m tests.support.api.openapi_document` writes the file. If a change breaks clients of the
committed document, the program names it and writes nothing. With `--break` it writes the file, and
a line about each break into the changelog. CI fails without that line
(`tests.support.api.openapi_said`).
"""

import json
import sys
from pathlib import Path
from typing import Any, cast

from mirage.database.schema.engine import Store
from mirage.web.api.app import ApiContext, create_app
from tests.support.api import openapi_said
from tests.support.api.openapi_breaking import list_breaks
from tests.support.paths import CHECKOUT

COMMITTED = CHECKOUT / openapi_said.DOCUMENT


def build_document() -> dict[str, Any]:
    """Return the document of the present app. No route is called, so the app needs no database."""
    context = ApiContext(
        store=cast(Store, None), cluster_id=0, cluster_name="", admins=(), clock=lambda: 0
    )
    return create_app(context).openapi()


def render_document(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(checkout: Path = CHECKOUT) -> int:
    document, path = build_document(), checkout / openapi_said.DOCUMENT
    breaks = list_breaks(json.loads(path.read_text()), document) if path.exists() else []
    for sentence in breaks:
        sys.stderr.write(f"breaking: {sentence}\n")
    if breaks and "--break" not in sys.argv:
        return 1
    if breaks:
        changelog = checkout / openapi_said.CHANGELOG
        changelog.write_text(openapi_said.add_sentences(changelog.read_text(), breaks))
    path.write_text(render_document(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
