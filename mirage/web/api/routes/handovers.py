"""Routes on hand-overs: what each one cost."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response

from mirage.database.chains import chains
from mirage.database.chains.chains import HandoverFilter, HandoverRow
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, USAGE
from mirage.domain.chain import ChainId
from mirage.web.api import serializers
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.schemas.handover_schemas import HandoverItem, HandoverPage
from mirage.web.api.streaming import file_export
from mirage.web.api.streaming.file_export import EXPORTED, AsFormat, Format
from mirage.web.shared.dependencies import Reader, require_identity
from mirage.web.shared.paging import Paging, TimeRangeQuery, format_pair_cursor

router = APIRouter(tags=["handovers"])


@router.get(
    "/handovers",
    operation_id="listHandovers",
    response_model=HandoverPage,
    responses=describe_read_errors(429) | EXPORTED,
)
def list_handovers(
    *,
    answer_format: AsFormat,
    paging: Paging,
    reader: Reader,
    time_range: TimeRangeQuery,
    chain_id: Annotated[str | None, Query(max_length=32)] = None,
    user: Annotated[str, Query(max_length=64)] = "",
    partition: Annotated[
        str,
        Query(max_length=64, description="Only hand-overs whose successor is in this partition."),
    ] = "",
    account: Annotated[str, Query(max_length=64)] = "",
) -> HandoverPage | Response:
    """List the complete hand-overs of all chains that the caller may see, the last start first.

    `since` and `until` limit the start of the successor.
    """
    require_identity(reader, JOBS, USAGE)
    where = HandoverFilter(
        chain_id=None if chain_id is None else ChainId(chain_id),
        user=user,
        partition=partition,
        account=account,
        since=time_range.since,
        until=time_range.until,
        own=None if reader.can_see_all_chains else reader.build_own_rows(),
    )
    cluster_id, begin = paging.context.cluster_id, paging.after_pair

    def read_page(tx: Transaction, last: HandoverRow | None, limit: int) -> list[HandoverRow]:
        after = begin if last is None else _get_cursor_key(last)
        return chains.list_handover_page(tx, cluster_id, where, after=after, limit=limit)

    if answer_format is not Format.JSON:
        return file_export.export_rows(
            paging.request, answer_format, HandoverItem, read_page, _serialize_handovers
        )
    return paging.build_page(
        HandoverPage,
        read_page(paging.tx, None, paging.limit),
        view=serializers.serialize_handover_row,
        cursor=lambda row: format_pair_cursor(*_get_cursor_key(row)),
    )


def _get_cursor_key(row: HandoverRow) -> tuple[int, int]:
    return row.successor.start or 0, row.successor.job_id


def _serialize_handovers(_tx: Transaction, rows: Sequence[HandoverRow]) -> list[HandoverItem]:
    return [serializers.serialize_handover_row(row) for row in rows]
