"""The page Audit: what people changed, and what Mirage found and did, newest first."""

import json
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Response

from mirage.database.events import audit
from mirage.database.events.audit import AuditFilter
from mirage.domain.chain import ChainId
from mirage.domain.time_units import DAY_S
from mirage.web.pages.page_context import CurrentPage
from mirage.web.shared.dependencies import Admin, reject_nul
from mirage.web.shared.paging import parse_row_cursor
from mirage.web.shared.problems import build_invalid_error

router = APIRouter(
    prefix="/admin/audit", include_in_schema=False, dependencies=[Depends(reject_nul)]
)

_ROWS = 50

AuditWord = Annotated[str, Query(max_length=256)]


@router.get("")
def show_audit(
    page: CurrentPage,
    admin: Admin,  # noqa: ARG001 - it makes the route require an admin
    *,
    actor: AuditWord = "",
    event: AuditWord = "",
    chain: Annotated[str, Query(max_length=32)] = "",
    day: Annotated[str, Query(max_length=10)] = "",
    after: Annotated[str, Query(max_length=18)] = "",
) -> Response:
    """Show the entries that match all given fields. `after` is the next page's cursor."""
    fields = {"actor": actor.strip(), "event": event.strip(), "chain": chain.strip(), "day": day}
    since = _parse_day(day)
    rows = audit.list_entries(
        page.tx,
        page.cluster_id,
        event=fields["event"] or None,
        chain_id=ChainId(fields["chain"]) if fields["chain"] else None,
        where=AuditFilter(
            actor=fields["actor"] or None,
            since=since,
            until=None if since is None else since + DAY_S,
        ),
        after=parse_row_cursor(after) if after else None,
        limit=_ROWS + 1,
    )
    filters = {name: value for name, value in fields.items() if value}
    next_filters = filters | {"after": str(rows[_ROWS - 1].id)} if len(rows) > _ROWS else None
    return page.render_page(
        "admin_audit.html",
        title="Audit",
        rows=rows[:_ROWS],
        fields=fields,
        is_filtered=bool(filters),
        is_first_page=not after,
        first_query=urlencode(filters),
        next_query="" if next_filters is None else urlencode(next_filters),
        format_detail=lambda entry_detail: (
            json.dumps(dict(entry_detail), ensure_ascii=False) if entry_detail else ""
        ),
    )


def _parse_day(text: str) -> int | None:
    """Return the beginning of the day in UTC, in epoch seconds; None for empty text."""
    if not text:
        return None
    try:
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise build_invalid_error(
            f"{text!r} is not a day: write it like 2026-03-02", parameter="day"
        ) from None
