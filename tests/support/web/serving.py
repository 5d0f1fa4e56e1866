"""Serves the app with its pages over a seeded database, as `mirage serve` does."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.database.schema.engine import Store
from mirage.web.api.app import ApiContext, create_app
from mirage.web.pages.app import mount_pages
from tests.support.api.running import NOW, Client, Stage
from tests.support.paths import MODELS
from tests.support.web.credentials import session_of
from tests.support.web.seeded import Size, seed
from tests.support.web.seeded_admin import describe_default_limits


@dataclass(frozen=True, slots=True)
class Site:
    """A running service, its database, and the sessions of logged-in users."""

    url: str
    store: Store
    cluster_id: int
    sessions: dict[str, str] = field(default_factory=dict)
    """By user: the secret of the session, which is the cookie's value."""

    @property
    def client(self) -> Client:
        return Client(self.url)


@contextmanager
def serving(template: Path, folder: Path, size: Size, **more: Any) -> Iterator[Site]:
    """Serve a site of that size; `template`: an empty database; `more`: fields of ApiContext."""
    database = folder / "mirage.db"
    shutil.copy(template, database)
    with closing(Store(f"sqlite:///{database}")) as store:
        cluster_id = seed(store, size)
    with serve_database(database, folder, cluster_id, **more) as site:
        yield site


@contextmanager
def serve_database(
    database: Path,
    folder: Path,
    cluster_id: int,
    users: tuple[str, ...] = ("root", "alice"),
    **more: Any,
) -> Iterator[Site]:
    """Serve a site over a filled database, with new sessions of `users`.

    The unix socket is created in `folder`.
    """
    with ExitStack() as stack:
        store = stack.enter_context(closing(Store(f"sqlite:///{database}")))
        sessions = {user: session_of(store, cluster_id, user) for user in users}
        stage = Stage()
        stack.enter_context(stage.open(folder))
        app = create_app(_build_context(store, cluster_id, more))
        mount_pages(app)
        url = stack.enter_context(stage.serve_app(app)).url
        yield Site(url, store, cluster_id, sessions)


def _build_context(store: Store, cluster_id: int, more: dict[str, Any]) -> ApiContext:
    values: dict[str, Any] = {
        "store": store,
        "cluster_id": cluster_id,
        "cluster_name": "lab",
        "admins": ("root",),
        "clock": lambda: NOW,
        "queue_interval_s": 60,
        "policies": ("reactive", "quantile", "auto"),
        "limit_descriptions": describe_default_limits(),
        "models_dir": MODELS,
    }
    return ApiContext(**values | more)
