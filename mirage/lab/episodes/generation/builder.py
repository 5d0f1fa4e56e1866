"""Builds episodes: the trace is replayed once, and each outcome comes from a fork of the replay.

docs/reference/episodes.md defines the rows. In short: the observation is the state after all events
of the instant, and the successor becomes eligible at that instant. At the predecessor's end Slurm
itself releases the successor, within that instant and before its scheduling passes.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from mirage.judging.table.episode_table import NONE, EpisodeTable, TableColumn
from mirage.judging.table.metadata import TableMetadata
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.event_history import EventHistory
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.lab.episodes.generation.replay_fork import NEVER, ReplayFork
from mirage.lab.episodes.generation.sim_queries import count_free_nodes, list_rivals
from mirage.observation import feature_vector, spec
from mirage.observation.queue_view import get_partition_number
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

Columns = dict[str, TableColumn]
"""The columns of one episode, without the axis of episodes."""


class EpisodeBuilder:
    """Makes episodes in the order of their start points; the replay only moves forward."""

    def __init__(self, params: Params, jobs: Sequence[SimJob], settings: PairSettings) -> None:
        self._settings = settings
        self._replay = TraceReplay(params, jobs, settings)
        self._aged_replay: TraceReplay | None = None
        if not params.accrue_always:
            self._aged_replay = TraceReplay(replace(params, accrue_always=True), jobs, settings)

    def build_table(self, start_points: Iterable[int], metadata: TableMetadata) -> EpisodeTable:
        """Build the episodes of these start points. They ascend, and none lies before the last
        one of an earlier call."""
        episodes: list[Columns] = []
        left_out = 0
        for point in start_points:
            rows = self.build_episode(point)
            if rows is None:
                left_out += 1
            else:
                episodes.append(rows)
        columns = _assemble_columns(episodes, self._settings.instant_s)
        started = columns["predecessor_end"][:, None] + columns["outcome_s"].astype(np.int64)
        beyond_trace = int((started > self._replay.trace_end).sum())
        return EpisodeTable(
            replace(metadata, left_out=left_out, beyond_trace=beyond_trace), columns
        )

    def build_episode(self, point: int) -> Columns | None:
        """Build the episode whose predecessor is submitted at `point`.

        None if one of the two jobs never starts, or a lost node cuts the predecessor short.
        """
        world, past = self._replay.fork_at(point)
        if world is None:
            return None
        rows = _EpisodeObserver(
            world, past, self._replay.link, self._settings.instant_s, point
        ).build_rows()
        aged_outcomes = (
            self._compute_aged_outcomes(self._aged_replay, point)
            if self._aged_replay
            else rows["outcome_s"]
        )
        if (
            not world.has_run_to_limit()
            or aged_outcomes is None
            or NEVER in (*rows["outcome_s"], *aged_outcomes)
        ):
            return None
        return rows | {"outcome_aged_s": aged_outcomes}

    def _compute_aged_outcomes(self, aged_replay: TraceReplay, point: int) -> TableColumn | None:
        """Compute the outcomes of the same pair on the same site with ACCRUE_ALWAYS, where the
        standby earns age from the start."""
        world = aged_replay.fork_without_history(point)
        if world is None:
            return None
        outcomes = world.compute_outcomes(world.start + self._settings.instant_s.astype(np.int64))
        return outcomes if world.has_run_to_limit() else None


class _EpisodeObserver:
    """Records the observations at each instant of one episode."""

    def __init__(
        self,
        world: ReplayFork,
        past: EventHistory,
        job: SimJob,
        instant_s: NDArray[np.int32],
        point: int,
    ) -> None:
        self._world = world
        self._past = past
        self._point = point
        self._instant_s = instant_s
        self._link = world.build_handover_input(job, point)
        self._partition = get_partition_number(world.sim.params, job.partition)
        count = len(self._instant_s)
        self._observations = np.zeros((count, len(spec.FEATURE_NAMES)), dtype=np.float32)
        self._queue_rows = np.zeros((3, count), dtype=np.int32)

    def build_rows(self) -> Columns:
        world = self._world
        instants = world.start + self._instant_s.astype(np.int64)
        outcome_s = world.compute_outcomes(instants, self._past.follow_world, self._observe_instant)
        started = np.array(self._past.started, dtype=np.int64).reshape(-1, 4)
        return {
            "start_point": np.array(self._point, dtype=np.int64),
            "predecessor_start": np.array(world.start, dtype=np.int64),
            "predecessor_end": np.array(world.end, dtype=np.int64),
            "outcome_s": outcome_s,
            "rivals": self._queue_rows[0],
            "rivals_planned_s": self._queue_rows[1],
            "free_nodes": self._queue_rows[2],
            "observations": self._observations,
            "started": started,
        }

    def _observe_instant(self, k: int) -> None:
        sim = self._world.sim
        self._observations[k] = feature_vector.observe_simulator(sim, self._link, self._past.memory)
        self._queue_rows[:, k] = (*self._count_rivals(sim), count_free_nodes(sim, self._partition))

    def _count_rivals(self, sim: Simulator) -> tuple[int, int]:
        """Count the waiting jobs that are not wider than the successor, and find their latest
        planned start."""
        rival_ids = list_rivals(sim, self._link.nodes, self._partition).tolist()
        if not rival_ids:
            return 0, NONE
        planned = sim.compute_planned_starts()
        starts = [planned[job_id] for job_id in rival_ids if job_id in planned]
        return len(rival_ids), max(starts) - sim.now if starts else NONE


def describe_table(
    params: Params,
    settings: PairSettings,
    *,
    trace: str = "",
    trace_sha256: str = "",
    source: str = "",
    versions: dict[str, str] | None = None,
) -> TableMetadata:
    """Return the description that a table carries of itself."""
    # An empty release is left out: older tables lack it, and both must count as one cluster.
    cluster = {k: v for k, v in asdict(params).items() if (k, v) != ("slurm_version", "")}
    return TableMetadata(
        trace=trace,
        trace_sha256=trace_sha256,
        source=source,
        # As a file gives it back: lists for tuples.
        cluster=json.loads(json.dumps(cluster)),
        features=spec.FEATURE_NAMES,
        features_fingerprint=spec.FINGERPRINT,
        versions=versions or {},
        **asdict(settings),
    )


_ROW_COLUMNS = ("started_at", "started_wait_s", "started_nodes", "started_limit_s")


def _assemble_columns(
    episodes: Sequence[Columns], instant_s: NDArray[np.int32]
) -> dict[str, TableColumn]:
    """Assemble the columns of a table from the rows of its episodes."""
    count, width = len(instant_s), len(spec.FEATURE_NAMES)
    columns: dict[str, TableColumn] = {"instant_s": instant_s}
    for name in ("start_point", "predecessor_start", "predecessor_end"):
        columns[name] = np.array([rows[name] for rows in episodes], dtype=np.int64)
    for name in ("outcome_s", "outcome_aged_s", "rivals", "rivals_planned_s", "free_nodes"):
        values = np.array([rows[name] for rows in episodes], dtype=np.int32)
        columns[name] = values.reshape(len(episodes), count)
    values = np.array([rows["observations"] for rows in episodes], dtype=np.float32)
    columns["observations"] = values.reshape(len(episodes), count, width)
    started = np.concatenate([np.zeros((0, 4), dtype=np.int64), *(r["started"] for r in episodes)])
    lengths = [0, *(len(rows["started"]) for rows in episodes)]
    columns["started_first"] = np.cumsum(lengths, dtype=np.int64)
    for i, name in enumerate(_ROW_COLUMNS):
        columns[name] = started[:, i].astype(np.int32 if i else np.int64)
    return columns
