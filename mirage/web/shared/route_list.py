"""Lists an app's routes with their whole paths, those of included routers among them."""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, routing


def list_routes(app: FastAPI) -> list[Any]:
    """Return what has the attributes `path`, `methods`, `matches` and, of an APIRoute, `dependant`.

    Newer releases of FastAPI keep an included router whole, and have a function that resolves it.
    """
    resolve = getattr(routing, "iter_route_contexts", None)
    routes: Iterable[Any] = app.routes if resolve is None else resolve(app.routes)
    return list(routes)
