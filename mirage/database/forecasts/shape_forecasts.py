"""Stores forecasts of jobs that nobody has submitted yet: the newest for each shape."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, and_, delete, func, or_, select, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import shapes
from mirage.database.schema.tables import jobs
from mirage.database.schema.upsert import put_row_if_absent
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import JobShape, ShapeForecast
from mirage.domain.snapshot import UNKNOWN


class RequestedShapes(NamedTuple):
    shapes: int
    """The number of shapes."""
    first: int | None
    """When the oldest of them was requested."""


_KEY = ("partition", "nodes", "time_limit_s", "gpus", "account")


def list_usual_shapes(
    tx: Transaction, cluster_id: int, since: int, limit: int, *, shared: bool
) -> dict[JobShape, int]:
    """Return the shapes of which most jobs have started since then, with the number of jobs.

    `shared`: jobs share nodes, so shapes that differ in GPUs are different shapes.
    """
    columns = [jobs.c.partition, jobs.c.nodes, jobs.c.time_limit_s]
    if shared:
        columns.append(jobs.c.gpus)
    count = func.count()
    query = (
        select(*columns, count.label("number"))
        .where(
            jobs.c.cluster_id == cluster_id,
            jobs.c.start >= since,
            jobs.c.nodes > 0,
            jobs.c.time_limit_s > 0,
            # UNKNOWN: the job's GPUs could not be read.
            jobs.c.gpus != UNKNOWN,
        )
        .group_by(*columns)
        .order_by(count.desc(), *columns)
        .limit(limit)
    )
    return {_build_shape(row, shared=shared): row.number for row in tx.execute(query)}


def follow_shapes(
    tx: Transaction, cluster_id: int, counts: Mapping[JobShape, int], asked_since: int
) -> None:
    """Keep forecasts of these shapes from now on, and of shapes requested since then."""
    tx.execute(update(shapes).where(shapes.c.cluster_id == cluster_id).values(usual=0))
    for shape, number in counts.items():
        _put_shape_if_absent(tx, cluster_id, shape)
        tx.execute(update(shapes).where(*_match_shape(cluster_id, shape)).values(usual=number))
    is_unused = (shapes.c.usual == 0, shapes.c.asked_at < asked_since)
    tx.execute(delete(shapes).where(shapes.c.cluster_id == cluster_id, *is_unused))


def request_forecast(
    tx: Transaction, cluster_id: int, shape: JobShape, now: int, *, by: int | None = None
) -> None:
    """Record that the user with uid `by` requests a forecast of this shape, which is due next."""
    _put_shape_if_absent(tx, cluster_id, shape)
    tx.execute(
        update(shapes).where(*_match_shape(cluster_id, shape)).values(asked_at=now, asked_by=by)
    )


def count_requests(
    tx: Transaction, cluster_id: int, since: int, *, by: int | None = None
) -> RequestedShapes:
    """Count the shapes that were requested since then. `by`: only those requested by this uid."""
    query = select(func.count(), func.min(shapes.c.asked_at)).where(
        shapes.c.cluster_id == cluster_id, shapes.c.asked_at >= since
    )
    if by is not None:
        query = query.where(shapes.c.asked_by == by)
    return RequestedShapes(*tx.execute(query).one())


def find_forecast(tx: Transaction, cluster_id: int, shape: JobShape) -> ShapeForecast | None:
    row = tx.execute(select(shapes).where(*_match_shape(cluster_id, shape))).first()
    return None if row is None else _build_forecast(row)


def list_forecasts(tx: Transaction, cluster_id: int, partition: str) -> list[ShapeForecast]:
    query = select(shapes).where(shapes.c.cluster_id == cluster_id, shapes.c.partition == partition)
    return [_build_forecast(row) for row in tx.execute(query)]


def list_due_shapes(
    tx: Transaction, cluster_id: int, *, older_than: int, asked_since: int
) -> list[JobShape]:
    """Return the shapes whose forecast is due, in the order in which they should be made.

    Requested shapes without an answer come first, then those with the oldest forecast.
    """
    is_unanswered = and_(
        shapes.c.asked_at >= asked_since, func.coalesce(shapes.c.at, -1) < shapes.c.asked_at
    )
    is_stale = and_(shapes.c.usual > 0, func.coalesce(shapes.c.at, -1) < older_than)
    rows = tx.execute(
        select(shapes).where(shapes.c.cluster_id == cluster_id, or_(is_unanswered, is_stale))
    )
    forecasts = sorted(map(_build_forecast, rows), key=_rank_turn)
    return [row.shape for row in forecasts]


def save_forecast(
    tx: Transaction, cluster_id: int, shape: JobShape, at: int, answer: Forecast | str
) -> None:
    """Store the twin's forecast, or a sentence that explains why there is none."""
    values: dict[str, Any] = {"at": at, "refused": ""}
    if isinstance(answer, str):
        values |= {"refused": answer, "p10_s": None, "p50_s": None, "p90_s": None, "samples": None}
    else:
        values |= {"p10_s": answer.p10_s, "p50_s": answer.p50_s, "p90_s": answer.p90_s}
        values |= {"samples": answer.samples}
    tx.execute(update(shapes).where(*_match_shape(cluster_id, shape)).values(**values))


def _rank_turn(row: ShapeForecast) -> tuple[bool, int, int]:
    answered_at = -1 if row.at is None else row.at
    return row.asked_at <= max(answered_at, 0), answered_at, -row.usual


def _put_shape_if_absent(tx: Transaction, cluster_id: int, shape: JobShape) -> None:
    values = _build_key_values(cluster_id, shape) | {"usual": 0, "asked_at": 0, "refused": ""}
    put_row_if_absent(tx, shapes, values, key=["cluster_id", *_KEY])


def _match_shape(cluster_id: int, shape: JobShape) -> Sequence[ColumnElement[bool]]:
    return [shapes.c[name] == value for name, value in _build_key_values(cluster_id, shape).items()]


def _build_key_values(cluster_id: int, shape: JobShape) -> dict[str, Any]:
    return {"cluster_id": cluster_id} | {name: getattr(shape, name) for name in _KEY}


def _build_shape(row: Any, *, shared: bool) -> JobShape:
    return JobShape(
        partition=row.partition,
        nodes=row.nodes,
        time_limit_s=row.time_limit_s,
        gpus=row.gpus if shared else 0,
    )


def _build_forecast(row: Row[Any]) -> ShapeForecast:
    forecast = None
    if row.p50_s is not None:
        forecast = Forecast(
            p10_s=row.p10_s, p50_s=row.p50_s, p90_s=row.p90_s, samples=row.samples or 0
        )
    return ShapeForecast(
        shape=JobShape(**{name: getattr(row, name) for name in _KEY}),
        usual=row.usual,
        asked_at=row.asked_at,
        at=row.at,
        forecast=forecast,
        refused=row.refused,
    )
