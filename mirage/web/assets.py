"""Serves the stylesheet, script and icon. An address contains a digest of the content.

Browsers may therefore keep a file for ever.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

router = APIRouter(prefix="/static", include_in_schema=False)

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"


@cache
def _load_files() -> dict[str, tuple[str, bytes]]:
    """Read the static files; return, by name, a digest of the content and the content."""
    contents = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES}
    return {name: (hashlib.sha256(body).hexdigest()[:16], body) for name, body in contents.items()}


def get_asset_path(name: str) -> str:
    """Return the path of that file below the service's root."""
    return f"/static/{_load_files()[name][0]}/{name}"


@router.get("/{digest}/{name}")
def serve_asset(digest: str, name: str) -> Response:
    """Serve a file. An old address gets the newest content, which browsers must not keep."""
    asset = _load_files().get(name)
    if asset is None:
        raise HTTPException(404, f"there is no file {name}")
    headers = {
        "Cache-Control": _FOR_EVER if digest == asset[0] else "no-cache",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return Response(asset[1], media_type=_TYPES[Path(name).suffix], headers=headers)
