"""Forecasts and their errors."""

import pytest
from sqlalchemy import func, select

from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import forecasts
from mirage.domain.decision import Forecast
from tests.support.chains import make_chain

pytestmark = pytest.mark.usefixtures("saved_chain")

CHAIN = make_chain()


def forecast(index: int, *, at: int, p50_s: float, source: str = "average") -> ForecastRow:
    return ForecastRow(
        chain_id=CHAIN.chain_id,
        index=index,
        source=source,
        at=at,
        forecast=Forecast(p50_s=p50_s, p90_s=9.0, samples=3),
    )


def test_newest_forecast_of_a_source_stands(store: Store, cluster_id: int) -> None:
    newest = forecast(2, at=200, p50_s=70.0)
    with store.begin() as tx:
        handover_forecasts.record_forecasts(tx, cluster_id, [forecast(2, at=100, p50_s=60.0)])
        handover_forecasts.record_forecasts(tx, cluster_id, [newest])
        found = handover_forecasts.find_newest_forecasts(
            tx, cluster_id, [(CHAIN.chain_id, 2), (CHAIN.chain_id, 3)]
        )
        assert found == {(CHAIN.chain_id, 2): newest}
        assert tx.scalar(select(func.count()).select_from(forecasts)) == 1


def test_error_is_signed_and_of_the_forecast_in_force(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        handover_forecasts.record_forecasts(
            tx, cluster_id, [forecast(2, at=100, p50_s=500.0, source="quantile")]
        )
        handover_forecasts.record_forecasts(tx, cluster_id, [forecast(2, at=200, p50_s=60.0)])
        handover_forecasts.settle_forecast(tx, cluster_id, CHAIN.chain_id, 2, 90)
        handover_forecasts.record_forecasts(tx, cluster_id, [forecast(3, at=300, p50_s=60.5)])
        handover_forecasts.settle_forecast(tx, cluster_id, CHAIN.chain_id, 3, 0)
        handover_forecasts.record_forecasts(tx, cluster_id, [forecast(4, at=400, p50_s=1.0)])
        assert handover_forecasts.list_errors(tx, cluster_id, last=100) == [-30.0, 60.5]
        assert handover_forecasts.list_errors(tx, cluster_id, last=1) == [60.5]
        assert handover_forecasts.list_errors(tx, cluster_id + 1, last=9) == []


def test_settling_without_a_forecast_does_nothing(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        handover_forecasts.settle_forecast(tx, cluster_id, CHAIN.chain_id, 2, 90)
        assert handover_forecasts.list_errors(tx, cluster_id, last=100) == []
