"""Routes on hand-overs: what each one cost."""

from typing import Annotated

from fastapi import APIRouter, Query

from mirage.api import schemas, views
from mirage.api.deps import Reader, need
from mirage.api.documented import read_errors
from mirage.api.paging import Between, Paging, pair_cursor
from mirage.domain.caller import JOBS, USAGE
from mirage.domain.chain import ChainId
from mirage.store import chains
from mirage.store.chains import HandoverFilter, HandoverRow

router = APIRouter(tags=["handovers"])


@router.get("/handovers", operation_id="listHandovers", responses=read_errors(401))
def list_handovers(
    *,
    paging: Paging,
    reader: Reader,
    between: Between,
    chain_id: Annotated[str | None, Query(max_length=32)] = None,
    user: Annotated[str, Query(max_length=64)] = "",
    partition: Annotated[str, Query(max_length=64, description="Of the successor.")] = "",
    account: Annotated[str, Query(max_length=64)] = "",
) -> schemas.HandoverPage:
    """Complete hand-overs of all chains that the caller may see, the last start first. `since` and
    `until` are of the successor's start."""
    need(reader, JOBS, USAGE)
    where = HandoverFilter(
        chain_id=None if chain_id is None else ChainId(chain_id),
        user=user,
        partition=partition,
        account=account,
        since=between.since,
        until=between.until,
        own=None if reader.sees_all_chains else reader.own(),
    )
    rows = chains.handover_page(
        paging.tx, paging.given.cluster_id, where, after=paging.after_pair, limit=paging.limit
    )
    return paging.answer(schemas.HandoverPage, rows, view=views.passed, cursor=cursor)


def cursor(row: HandoverRow) -> str:
    return pair_cursor(row.successor.start or 0, row.successor.job_id)
