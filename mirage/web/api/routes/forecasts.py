"""Routes on how long a job would wait if it were submitted now."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from mirage.domain.job_shape import JobShape
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import NeverStarts
from mirage.provision.forecasts import submission_forecast
from mirage.provision.forecasts.submission_forecast import Requester, SubmissionForecast
from mirage.web.api.openapi import describe_read_errors, describe_write_errors
from mirage.web.api.schemas import chain_schemas
from mirage.web.api.schemas import forecast_schemas as schemas
from mirage.web.shared import quota
from mirage.web.shared.chain_access import get_minimum_jobs, get_visible_bounds
from mirage.web.shared.dependencies import (
    Context,
    Freshness,
    Reader,
    Reading,
    Writer,
    Writing,
    read_freshness,
    to_instant,
)
from mirage.web.shared.idempotent_requests import Idempotency
from mirage.web.shared.problems import build_invalid_error

router = APIRouter(tags=["cluster"])


def _limit_forecasts(request: Request, _reader: Reader) -> Iterator[None]:
    with quota.get_quota(request).limit_forecasts(quota.get_quota_holder(request)):
        yield


@router.get(
    "/forecasts",
    operation_id="getForecast",
    responses=describe_read_errors(401, 404, 429),
    dependencies=[Depends(_limit_forecasts, scope="function")],
)
def get_forecast(
    context: Context,
    reader: Reader,
    tx: Reading,
    *,
    partition: Annotated[str, Query(min_length=1, max_length=64, examples=["gpu"])],
    nodes: Annotated[int, Query(ge=1, le=schemas.MOST_NODES, examples=[4])],
    time_limit_s: Annotated[int, Query(ge=1, le=UNLIMITED, examples=[172800])],
    gpus: Annotated[
        int,
        Query(
            ge=0,
            le=schemas.MOST_GPUS,
            description="The number of GPUs over all nodes; 0: the job takes whole nodes.",
        ),
    ] = 0,
    account: Annotated[str, Query(max_length=64)] = "",
) -> schemas.WaitForecast:
    """Forecast how long such a job would wait if you submitted it now.

    The forecast is the twin's answer for this job or for a job near it. If there is none, it
    comes from the recent waits of similar jobs.
    """
    shape = JobShape(
        partition=partition, nodes=nodes, time_limit_s=time_limit_s, gpus=gpus, account=account
    )
    now, bounds = context.clock(), get_visible_bounds(context, reader, partition)
    try:
        forecast = submission_forecast.forecast_submission(
            tx, context.cluster_id, shape, now, least=get_minimum_jobs(reader), bounds=bounds
        )
    except NeverStarts as error:
        raise build_invalid_error(str(error), parameter=error.field) from error
    return _serialize_forecast(forecast, now, read_freshness(tx, context))


@router.post(
    "/forecasts",
    operation_id="askForecast",
    status_code=202,
    responses=describe_write_errors(409, 412, 429),
)
def ask_forecast(
    new: schemas.NewForecast,
    context: Context,
    writer: Writer,
    tx: Writing,
    key: Idempotency,
) -> schemas.ForecastAsked:
    """Have the twin forecast exactly this job.

    The worker makes the forecast within some minutes. Then getForecast returns it.
    """

    requester = Requester(writer.uid, context.quotas.forecasts_asked)

    def request_forecast() -> schemas.ForecastAsked:
        shape, bounds = (
            JobShape(**new.model_dump()),
            get_visible_bounds(context, writer, new.partition),
        )
        try:
            submission_forecast.request_forecast(
                tx, context.cluster_id, shape, context.clock(), bounds=bounds, by=requester
            )
        except NeverStarts as error:
            raise build_invalid_error(str(error), pointer=f"#/{error.field}") from error
        return build_answer()

    def build_answer() -> schemas.ForecastAsked:
        return schemas.ForecastAsked(ask_again_s=context.queue_interval_s)

    return key.run_once(request_forecast, build_answer)


def _serialize_forecast(
    forecast: SubmissionForecast, now: int, freshness: Freshness
) -> schemas.WaitForecast:
    shape, used, quality = forecast.shape, forecast.used, forecast.quality
    return schemas.WaitForecast(
        partition=shape.partition,
        nodes=shape.nodes,
        time_limit_s=shape.time_limit_s,
        gpus=shape.gpus,
        account=shape.account,
        source=schemas.Source(forecast.source),
        foretold_at=to_instant(forecast.at),
        exact=forecast.exact,
        used=schemas.ShapeView(
            nodes=used.nodes,
            time_limit_s=used.time_limit_s,
            gpus=used.gpus,
            account=used.account,
        ),
        calibrated=forecast.calibrated,
        quality=None
        if quality is None
        else schemas.ForecastQuality(
            jobs=quality.jobs,
            days=quality.days,
            within=quality.within,
            below_p90=quality.below_p90,
            error_s=quality.error_s,
        ),
        waiting=forecast.waiting,
        refused=forecast.refused,
        says=list(submission_forecast.describe_forecast(forecast, now)),
        as_of=freshness.as_of,
        stale=freshness.stale,
        **chain_schemas.ForecastView.model_validate(forecast.forecast).model_dump(),
    )
