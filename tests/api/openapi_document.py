"""The OpenAPI document as it is committed: `python -m tests.api.openapi_document` writes it anew.

A change that would break a client made from the committed one is named, and nothing is written;
`--break` writes it all the same, for a release that says so in its changelog.
"""

import json
import sys
from pathlib import Path
from typing import Any, cast

from mirage.api.app import ApiContext, create_app
from mirage.store.engine import Store
from tests.api.openapi_breaking import breaking

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"


def made() -> dict[str, Any]:
    """Of the app as it is; no route is called, so nothing stands behind it."""
    given = ApiContext(
        store=cast(Store, None), cluster_id=0, cluster_name="", admins=(), clock=lambda: 0
    )
    return create_app(given).openapi()


def text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main(path: Path = COMMITTED) -> int:
    document = made()
    broken = breaking(json.loads(path.read_text()), document) if path.exists() else []
    for sentence in broken:
        sys.stderr.write(f"breaking: {sentence}\n")
    if broken and "--break" not in sys.argv:
        return 1
    path.write_text(text(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
