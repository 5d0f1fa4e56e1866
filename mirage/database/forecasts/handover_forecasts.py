"""Stores forecasts of hand-over waits, and their errors.

There is one row for each link and source, the newest. The decisions show how a forecast changed
with time. Once a standby is free no more forecasts are made for it, so the newest forecast is the
one that was in force at the move.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import RowMapping, Select, and_, bindparam, func, select, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey, match_links, pack_links
from mirage.database.schema.tables import chains, forecasts, links
from mirage.database.schema.upsert import put_rows
from mirage.domain.chain import ChainId
from mirage.domain.decision import Forecast

SLURM_ESTIMATE = "slurm-estimate"
"""The source of a forecast that is stored beside the deciding one, for the same instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    chain_id: ChainId
    index: int
    source: str
    """The policy that made the forecast."""
    at: int
    forecast: Forecast
    actual_wait_s: int | None = None
    """The successor's real wait; None until the hand-over is complete."""


def record_forecasts(
    tx: Transaction, cluster_id: int, new_forecasts: Sequence[ForecastRow]
) -> None:
    """Store many forecasts, each in place of its source's earlier one for the link."""
    values = [_build_values(cluster_id, forecast) for forecast in new_forecasts]
    put_rows(tx, forecasts, values, key=["chain_id", "index", "source"])


def _build_values(cluster_id: int, row: ForecastRow) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id,
        "chain_id": row.chain_id,
        "index": row.index,
        "source": row.source,
        "at": row.at,
        "p10_s": row.forecast.p10_s,
        "p50_s": row.forecast.p50_s,
        "p90_s": row.forecast.p90_s,
        "samples": row.forecast.samples,
        "actual_wait_s": row.actual_wait_s,
    }


def settle_forecast(
    tx: Transaction,
    cluster_id: int,
    chain_id: ChainId,
    index: int,
    actual_wait_s: int,
    *,
    since: int = 0,
) -> None:
    """Record the successor's real wait with the link's newest forecast, if there is one, and with
    other sources' forecasts of the same instant.

    Only forecasts made at `since` or later count: a link that gives its nodes back waits once more,
    and the forecast of its first wait was not about that.
    """
    is_of_link = (
        forecasts.c.at >= since,
        forecasts.c.cluster_id == cluster_id,
        forecasts.c.chain_id == chain_id,
        forecasts.c.index == index,
    )
    newest = select(func.max(forecasts.c.at)).where(*is_of_link)
    tx.execute(
        update(forecasts)
        .where(*is_of_link, forecasts.c.at == newest.scalar_subquery())
        .values(actual_wait_s=actual_wait_s)
    )


def list_errors(tx: Transaction, cluster_id: int, last: int) -> list[float]:
    """List the errors of the last hand-overs, oldest first: median forecast minus wait, seconds."""
    query = select(forecasts.c.p50_s - forecasts.c.actual_wait_s).where(
        forecasts.c.cluster_id == cluster_id, forecasts.c.actual_wait_s.is_not(None)
    )
    rows = tx.scalars(query.order_by(forecasts.c.at.desc(), forecasts.c.id.desc()).limit(last))
    return [float(error) for error in rows][::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedError:
    """The error of a forecast, and whose hand-over it was."""

    uid: int
    user: str
    partition: str
    nodes: int
    """The successor's."""
    known_at: int
    """When the successor started, which ended the wait."""
    error_s: float
    """Median forecast minus actual wait, in seconds."""


def has_error_above(
    tx: Transaction, cluster_id: int, source: str, *, since: int, bound_s: float
) -> bool:
    """Return whether any forecast of that source made at `since` or later was wrong by more than
    `bound_s`.

    Otherwise no owner's mean error can be above the bound. A tick asks this first, since it takes a
    tenth of the time of the errors by owner.
    """
    error = func.abs(forecasts.c.p50_s - forecasts.c.actual_wait_s)
    query = select(forecasts.c.id).where(
        forecasts.c.cluster_id == cluster_id,
        forecasts.c.source == source,
        forecasts.c.at >= since,
        error > bound_s,
    )
    return tx.scalar(query.limit(1)) is not None


def list_errors_by_owner(
    tx: Transaction, cluster_id: int, source: str, *, since: int, last: int
) -> list[OwnedError]:
    """List the errors of one source's forecasts made at `since` or later, newest first.

    At most `last` errors of each owner are listed, so that nobody's many hand-overs hide another's.
    Links that were hindered are left out: no forecast could know of the hindrance.
    """
    newest = func.row_number().over(
        partition_by=chains.c.uid, order_by=(links.c.start.desc(), forecasts.c.id.desc())
    )
    error = forecasts.c.p50_s - forecasts.c.actual_wait_s
    rows = (
        select(
            *(chains.c.uid, chains.c.user, links.c.partition, links.c.nodes),
            *(links.c.start.label("known_at"), error.label("error_s"), newest.label("place")),
        )
        .join(chains, chains.c.chain_id == forecasts.c.chain_id)
        .join(
            links,
            and_(links.c.chain_id == forecasts.c.chain_id, links.c.index == forecasts.c.index),
        )
        .where(
            forecasts.c.cluster_id == cluster_id,
            forecasts.c.source == source,
            forecasts.c.at >= since,
            forecasts.c.actual_wait_s.is_not(None),
            links.c.start.is_not(None),
            links.c.hindered == "",
        )
        .subquery()
    )
    query = select(*(c for c in rows.c if c.name != "place")).where(rows.c.place <= last)
    errors = tx.execute(query.order_by(rows.c.place)).mappings()
    return [OwnedError(**row) for row in errors]


def find_newest_forecasts(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey]
) -> dict[LinkKey, ForecastRow]:
    """Return the newest forecast of each of these links that has one."""
    if not links:
        return {}
    query = _select_forecasts(tx.dialect.name)
    rows = tx.execute(query, {"pairs": pack_links(links), "cluster_id": cluster_id}).mappings()
    return {(row.chain_id, row.index): row for row in map(_build_forecast, rows)}


@cache
def _select_forecasts(dialect: str) -> Select[Any]:
    is_deciding = forecasts.c.source != SLURM_ESTIMATE
    query = select(forecasts).where(
        forecasts.c.cluster_id == bindparam("cluster_id"),
        match_links(dialect, forecasts.c.chain_id, forecasts.c.index),
    )
    return query.order_by(forecasts.c.at, is_deciding, forecasts.c.id)


def list_settled_forecasts(
    tx: Transaction, cluster_id: int, since: int, until: int, last: int
) -> list[ForecastRow]:
    """List forecasts made in [since, until) whose wait is known, newest first, `last` at most."""
    query = select(forecasts).where(
        forecasts.c.cluster_id == cluster_id,
        forecasts.c.at >= since,
        forecasts.c.at < until,
        forecasts.c.actual_wait_s.is_not(None),
    )
    rows = tx.execute(query.order_by(forecasts.c.at.desc(), forecasts.c.id.desc()).limit(last))
    return [_build_forecast(r) for r in rows.mappings()]


def _build_forecast(row: RowMapping) -> ForecastRow:
    p10_s, p50_s, p90_s = row["p10_s"], row["p50_s"], row["p90_s"]
    return ForecastRow(
        chain_id=ChainId(row["chain_id"]),
        index=row["index"],
        source=row["source"],
        at=row["at"],
        forecast=Forecast(p10_s=p10_s, p50_s=p50_s, p90_s=p90_s, samples=row["samples"]),
        actual_wait_s=row["actual_wait_s"],
    )
