"""Builds the timeline of one chain: its links, hand-overs with their forecasts, and logs."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.chains.start_range import StartRange, read_start_ranges
from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainId, Link, LinkState
from mirage.domain.handover import Handover, LinkPair, list_handovers
from mirage.domain.job import JobId
from mirage.slurm.text.stdout_path import resolve_stdout_path

MAX_DECISIONS = 200
"""The most decisions of one hand-over that its forecast's history is built from: a week of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineHandover:
    """One hand-over, complete or to come."""

    predecessor: Link
    successor: Link
    forecast: StartRange | None
    """The forecast in force when the successor was released; before that, the newest forecast."""

    @property
    def ends(self) -> int | None:
        """Return when the predecessor ended or, while it runs, when its time limit ends it."""
        end = self.predecessor.end
        return self.predecessor.get_planned_end() if end is None else end

    @property
    def over(self) -> Handover | None:
        """`LinkPair.over`."""
        return LinkPair(self.predecessor, self.successor).over


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPoint:
    """A forecast at one instant: the start, if the link were eligible then, in epoch seconds."""

    at: int
    p10: int
    p50: int
    p90: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastHistory:
    """How the forecast of one hand-over changed with each decision."""

    handover: TimelineHandover
    points: Sequence[ForecastPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLog:
    """The file to which a link writes its output."""

    index: int
    job_id: JobId
    file: str
    is_stated: bool
    """Whether the command line of the submission names the file; False: it is Slurm's default,
    which the script may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTimeline:
    chain: Chain
    links: Sequence[Link]
    """The links by index."""
    handovers: Sequence[TimelineHandover]
    """The hand-overs by the successor's index."""
    course: ForecastHistory | None
    """The forecasts of the chosen hand-over, or of the newest hand-over with a forecast."""

    @property
    def interruption_h(self) -> float:
        return sum(h.over.interruption_h for h in self.handovers if h.over is not None)

    @property
    def overlap_h(self) -> float:
        return sum(h.over.overlap_h for h in self.handovers if h.over is not None)


def build_timeline(
    tx: Transaction,
    cluster_id: int,
    chain: Chain,
    links: Sequence[Link],
    *,
    index: int | None = None,
) -> ChainTimeline:
    """Build the timeline. `index` chooses the successor of `course`; None: the newest one."""
    starts = read_start_ranges(tx, cluster_id, links)
    handovers = [
        TimelineHandover(
            predecessor=predecessor,
            successor=successor,
            forecast=starts.get((chain.chain_id, successor.index)),
        )
        for predecessor, successor in list_handovers(links)
    ]
    return ChainTimeline(
        chain=chain,
        links=links,
        handovers=handovers,
        course=_build_history(tx, cluster_id, chain.chain_id, handovers, index),
    )


def _build_history(
    tx: Transaction,
    cluster_id: int,
    chain_id: ChainId,
    handovers: Sequence[TimelineHandover],
    index: int | None,
) -> ForecastHistory | None:
    with_forecast = [h for h in handovers if h.forecast is not None]
    chosen = [h for h in with_forecast if h.successor.index == index] or with_forecast[-1:]
    if not chosen:
        return None
    rows = decisions.list_link_decisions(
        tx, cluster_id, chain_id, chosen[0].successor.index, last=MAX_DECISIONS
    )
    points = [point for row in rows if (point := _build_point(row)) is not None]
    return ForecastHistory(handover=chosen[0], points=points)


def _build_point(row: DecisionRow) -> ForecastPoint | None:
    forecast = row.forecast
    if forecast is None:
        return None
    # A run of waits shows its newest numbers (`database.chains.decisions`).
    at = row.last_at
    return ForecastPoint(
        at=at,
        p10=at + round(forecast.p50_s if forecast.p10_s is None else forecast.p10_s),
        p50=at + round(forecast.p50_s),
        p90=at + round(forecast.p50_s if forecast.p90_s is None else forecast.p90_s),
    )


def list_logs(
    tx: Transaction, cluster_id: int, chain: Chain, links: Sequence[Link]
) -> list[LinkLog]:
    """List the logs of all links that have run, in order.

    The caller checks that the reader may change the chain: a path may be private.
    """
    begun = [
        link for link in links if link.state is not LinkState.PENDING and not link.has_vanished
    ]
    lines = job_history.read_submit_lines(
        tx, cluster_id, [(link.job_id, link.submit) for link in begun]
    )
    logs = []
    for link in begun:
        line = lines.get((link.job_id, link.submit), "")
        file, is_stated = resolve_stdout_path(line, job_id=link.job_id, user=chain.user)
        logs.append(LinkLog(index=link.index, job_id=link.job_id, file=file, is_stated=is_stated))
    return logs
