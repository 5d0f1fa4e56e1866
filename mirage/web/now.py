"""The page Now: what needs somebody's eyes, the next hand-overs, and what Mirage does there."""

import re
from typing import Annotated

from fastapi import APIRouter, Query, Response

from mirage.api.deps import need
from mirage.api.problems import invalid
from mirage.domain.caller import JOBS, USAGE
from mirage.domain.chain import ChainId
from mirage.services.overview import ChainRow, overview
from mirage.store.standings import Place, Wanted
from mirage.web import strips, verdicts
from mirage.web.page import Entry, Looking

ENTRY = Entry(name="Now", path="/", order=1)
router = APIRouter(include_in_schema=False)

_ROWS = 25
_CURSOR = re.compile(r"(?P<rank>[012])-(?P<ends>\d{1,19})-(?P<chain>[a-z0-9]{8,32})")


@router.get("/")
def show(
    look: Looking,
    user: Annotated[str, Query(max_length=64)] = "",
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Live chains by risk; `after` is of the link to the next page."""
    need(look.reader, JOBS, USAGE)
    own = None if look.reader.sees_all_chains else look.reader.own()
    wanted = Wanted(own=own, user=user.strip())
    place = _place(after) if after else None
    found = overview(look.tx, look.cluster_id, wanted, after=place, limit=_ROWS)
    rows = found.rows[:_ROWS]
    return look.page(
        "now.html",
        title="Now",
        found=found,
        rows=rows,
        user=wanted.user,
        first=place is None,
        following=_cursor(rows[-1]) if len(found.rows) > _ROWS else "",
        said=verdicts.said,
        stands=verdicts.stands,
        strip=strips.draw,
    )


def _cursor(row: ChainRow) -> str:
    return f"{row.place.rank}-{row.place.ends}-{row.place.chain_id}"


def _place(cursor: str) -> Place:
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found["ends"]) >= 2**63:
        raise invalid("no such page: begin again without `after`", parameter="after")
    return Place(int(found["rank"]), int(found["ends"]), ChainId(found["chain"]))
