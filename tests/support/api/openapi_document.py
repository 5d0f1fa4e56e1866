"""The OpenAPI document as it is committed.

`python -m tests.support.api.openapi_document` writes it anew.

A change that would break a client made from the committed one is named, and nothing is written;
`--break` writes it all the same, and says so in the changelog: without that CI fails
(`tests.support.api.openapi_said`).
"""

import json
import sys
from pathlib import Path
from typing import Any, cast

from mirage.database.schema.engine import Store
from mirage.web.api.app import ApiContext, create_app
from tests.support.api import openapi_said
from tests.support.api.openapi_breaking import breaking
from tests.support.paths import CHECKOUT

COMMITTED = CHECKOUT / openapi_said.DOCUMENT


def made() -> dict[str, Any]:
    """Of the app as it is; no route is called, so nothing stands behind it."""
    given = ApiContext(
        store=cast(Store, None), cluster_id=0, cluster_name="", admins=(), clock=lambda: 0
    )
    return create_app(given).openapi()


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(checkout: Path = CHECKOUT) -> int:
    document, path = made(), checkout / openapi_said.DOCUMENT
    broken = breaking(json.loads(path.read_text()), document) if path.exists() else []
    for sentence in broken:
        sys.stderr.write(f"breaking: {sentence}\n")
    if broken and "--break" not in sys.argv:
        return 1
    if broken:
        changelog = checkout / openapi_said.CHANGELOG
        changelog.write_text(openapi_said.saying(changelog.read_text(), broken))
    path.write_text(text(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
