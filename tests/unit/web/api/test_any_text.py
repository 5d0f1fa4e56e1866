"""Text that PostgreSQL keeps in no column is refused by every page before it is looked for."""

import pytest

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.web.api.app import ApiContext, create_app
from mirage.web.pages.app import mount_pages
from mirage.web.shared.auth.cookie_auth import COOKIE
from tests.support.api.running import NOW, Client, Stage
from tests.support.fixtures.store import store
from tests.support.web.credentials import session_of

__all__ = ["store"]

NUL = "%00"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/?user={NUL}", ""),
        ("GET", f"/queue?partition={NUL}&to={NUL}&nodes=1&time=1", ""),  # said on the page
        ("GET", f"/admin/audit?actor={NUL}&event={NUL}", ""),
        ("POST", f"/queue/ask?to={NUL}&nodes=1&time=1", ""),
        ("POST", "/admin/mode", f"mode=shadow&partition={NUL}"),
        ("POST", "/api/v1/forecasts", '{"partition": "\\u0000", "nodes": 1, "time_limit_s": 60}'),
    ],
)
def test_nul_is_refused_or_passed_over(
    store: Store, stage: Stage, method: str, path: str, body: str
) -> None:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
    given = ApiContext(
        store=store,
        cluster_id=cluster_id,
        cluster_name="lab",
        admins=("root",),
        clock=lambda: NOW,
    )
    app = create_app(given)
    mount_pages(app)
    with stage.serve_app(app) as client:
        answer = _sent(client, method, path, body, session_of(store, cluster_id, "root"))
    assert answer == (200 if path.startswith("/queue?") else 422)


def _sent(client: Client, method: str, path: str, body: str, session: str) -> int:
    kind = "json" if path.startswith("/api") else "x-www-form-urlencoded"
    headers = {
        "Cookie": f"{COOKIE}={session}",
        "Origin": client.url,
        "Accept": "text/html",
        "Content-Type": f"application/{kind}",
    }
    return client.raw(method, path, headers=headers, content=body.encode()).status_code
