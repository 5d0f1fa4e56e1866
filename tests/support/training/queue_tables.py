"""Hand-made tables of a queue whose load drifts. Observations tell part of the wait."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mirage.judging.table.episode_table import EpisodeTable
from mirage.observation import spec
from mirage.twin.table_forecasts import TwinForecasts
from mirage.twin.twin_features import LEVELS
from tests.support.episodes.tables import HOUR_S, MONDAY, table

INSTANTS = 25
"""Four hours, every ten minutes."""
LEFT_S = np.arange(INSTANTS - 1, -1, -1) * 600
EPISODES = 150
EACH_DAY = 6


def queue_table(
    episodes: int = EPISODES,
    seed: int = 0,
    *,
    first: int = MONDAY,
    load_until: float = 4.0,
    loads: Sequence[float] = (),
) -> EpisodeTable:
    """A pair every four hours. Waits are up to `load_until` hours, and half of them are 0; or about
    as long as `loads` says, day by day."""
    rng = np.random.default_rng(seed)
    waits_h = _waits_h(rng, episodes, load_until, loads)
    outcome_h = waits_h - LEFT_S / HOUR_S
    plain = table(
        outcome_h.tolist(),
        start_points=[first + i * 4 * HOUR_S for i in range(episodes)],
        waits_s=(600, 1200, 7200),
    )
    metadata = replace(
        plain.metadata,
        features=spec.FEATURE_NAMES,
        features_fingerprint=spec.FINGERPRINT,
        since=first,
        until=first + episodes * 4 * HOUR_S,
    )
    columns = {name: plain._columns[name] for name in plain._columns}
    return EpisodeTable(metadata, columns | {"observations": _build_observations(rng, waits_h)})


@cache
def training_table() -> EpisodeTable:
    """Build the table that the tests' models are trained on, once a test run."""
    return queue_table()


def at_load(original: EpisodeTable, load: float) -> EpisodeTable:
    """Return the same table with another load in its metadata."""
    return EpisodeTable(replace(original.metadata, load=load), original._columns)


def add_forecasts(original: EpisodeTable, every: int = 6) -> EpisodeTable:
    """Return the same table with the twin's forecasts, whose median is the true wait."""
    question_instants = np.arange(0, INSTANTS - 1, every)
    waits_s = np.maximum(original.outcome_s[:, question_instants] + LEFT_S[question_instants], 0)
    spread = np.exp(np.linspace(-0.4, 0.4, len(LEVELS)))
    answers = np.round(waits_s[..., None] * spread).astype(np.int32)
    table = EpisodeTable(original.metadata, original._columns)
    table.twins = TwinForecasts(original.metadata.pair, original.start_point, every, answers)
    return table


def shorten(original: EpisodeTable, instants: int) -> EpisodeTable:
    """Return the last `instants` of each run, as if its predecessor had started then."""
    begins_s = int(original.instant_s[-instants])
    columns = {
        name: column[:, -instants:] if column.shape[:2] == original.outcome_s.shape else column
        for name, column in ((name, original._columns[name]) for name in original._columns)
    }
    columns |= {
        "instant_s": original.instant_s[-instants:] - original.instant_s[-instants],
        "predecessor_start": original.predecessor_start + begins_s,
    }
    metadata = replace(original.metadata, time_limit_s=original.metadata.time_limit_s - begins_s)
    return EpisodeTable(metadata, columns)


def shuffle_outcomes(original: EpisodeTable, seed: int = 0) -> EpisodeTable:
    """Return the table with its outcomes moved to other episodes, so nothing can be learned."""
    order = np.random.default_rng(seed).permutation(len(original))
    columns = {name: original._columns[name] for name in original._columns}
    return EpisodeTable(original.metadata, columns | {"outcome_s": original.outcome_s[order]})


def _waits_h(
    rng: np.random.Generator, episodes: int, load_until: float, loads: Sequence[float]
) -> NDArray[np.float64]:
    """[E, T]: a day's load, which an episode follows with its own noise."""
    day = np.arange(episodes) // EACH_DAY
    drawn_loads = rng.uniform(-load_until, load_until, day.max() + 1)
    load = np.asarray(loads if loads else drawn_loads)[day]
    drift = np.cumsum(rng.normal(0.0, 0.05, (episodes, INSTANTS)), axis=1)
    waits_h: NDArray[np.float64] = np.maximum(load[:, None] + drift, 0.0)
    return waits_h


def _build_observations(
    rng: np.random.Generator, waits_h: NDArray[np.float64]
) -> NDArray[np.float32]:
    """[E, T, F]: a plan that is wrong by a fifth or so, the time left, and noise."""
    observations = rng.normal(0.0, 0.1, (*waits_h.shape, len(spec.FEATURE_NAMES)))
    planned_h = waits_h * np.exp(rng.normal(0.0, 0.2, waits_h.shape))
    observations[..., spec.PLACES["plan_wait"]] = np.log1p(planned_h)
    observations[..., spec.PLACES["predecessor_left"]] = np.log1p(LEFT_S / HOUR_S)
    gap_h = planned_h - LEFT_S / HOUR_S
    observations[..., spec.PLACES["plan_gap"]] = np.sign(gap_h) * np.log1p(np.abs(gap_h))
    return observations.astype(np.float32)
