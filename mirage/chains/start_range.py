"""The range in which a link may start, by its newest forecast."""

from collections.abc import Iterable
from dataclasses import dataclass

from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey
from mirage.domain.chain import Link, LinkState, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRange:
    """The range in which a successor may start: epoch seconds, by a forecast of its wait."""

    p10: int
    p50: int
    p90: int
    since: int
    """The instant from which the wait is counted."""
    is_free: bool
    """Whether the link is eligible; False: the range holds if it becomes eligible at `since`."""


def read_start_ranges(
    tx: Transaction, cluster_id: int, links: Iterable[Link]
) -> dict[LinkKey, StartRange]:
    """Return the range of each of these links that has a forecast.

    A link that was moved has the forecast stored with its move. A link that is still held has the
    forecast of its last decision, if that is newer. A forecast made before the link gave its nodes
    back says nothing of the next start, and is left out.
    """
    by_key = {(link.chain_id, link.index): link for link in links}
    newest = handover_forecasts.find_newest_forecasts(tx, cluster_id, list(by_key))
    held_keys = [key for key, link in by_key.items() if _is_held(link)]
    for key, row in decisions.find_last_decisions(tx, cluster_id, held_keys).items():
        stored = newest.get(key)
        forecast_row = build_forecast_row(row)
        if forecast_row is not None and (stored is None or stored.at < row.last_at):
            newest[key] = forecast_row
    return {
        key: compute_start_range(by_key[key], row)
        for key, row in newest.items()
        if row.at >= (by_key[key].returned_at or 0)
    }


def build_forecast_row(row: DecisionRow) -> ForecastRow | None:
    """Return the forecast of a decision, as of its newest repetition; None: it has none."""
    if row.forecast is None:
        return None
    return ForecastRow(
        chain_id=row.chain_id,
        index=row.index,
        source=row.policy,
        at=row.last_at,
        forecast=row.forecast,
    )


def _is_held(link: Link) -> bool:
    return link.state is LinkState.PENDING and link.position is Position.HELD


def compute_start_range(standby: Link, row: ForecastRow) -> StartRange:
    """Return the range of the standby's start by its newest forecast.

    For a standby that has been moved, that is the forecast in force at the move.
    """
    forecast = row.forecast
    freed_at = standby.freed_at if standby.position is not Position.HELD else None
    since = row.at if freed_at is None else freed_at
    return StartRange(
        p10=since + round(forecast.p50_s if forecast.p10_s is None else forecast.p10_s),
        p50=since + round(forecast.p50_s),
        p90=since + round(forecast.p50_s if forecast.p90_s is None else forecast.p90_s),
        since=since,
        is_free=freed_at is not None,
    )
