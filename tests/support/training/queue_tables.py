"""Hand-made tables of a queue whose load drifts: what is seen tells of the wait, not all of it."""

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
    made = table(
        outcome_h.tolist(),
        start_points=[first + i * 4 * HOUR_S for i in range(episodes)],
        waits_s=(600, 1200, 7200),
    )
    about = replace(
        made.about,
        features=spec.NAMES,
        features_fingerprint=spec.FINGERPRINT,
        since=first,
        until=first + episodes * 4 * HOUR_S,
    )
    columns = {name: made._columns[name] for name in made._columns}
    return EpisodeTable(about, columns | {"observations": _seen(rng, waits_h)})


@cache
def learned() -> EpisodeTable:
    """The one that models of tests have learned from, once a test run."""
    return queue_table()


def at_load(made: EpisodeTable, load: float) -> EpisodeTable:
    """The same table, said to be of another load."""
    return EpisodeTable(replace(made.about, load=load), made._columns)


def foretold(made: EpisodeTable, every: int = 6) -> EpisodeTable:
    """The same table with the twin's answers: it is right in the middle."""
    asked = np.arange(0, INSTANTS - 1, every)
    waits_s = np.maximum(made.outcome_s[:, asked] + LEFT_S[asked], 0)
    spread = np.exp(np.linspace(-0.4, 0.4, len(LEVELS)))
    answers = np.round(waits_s[..., None] * spread).astype(np.int32)
    table = EpisodeTable(made.about, made._columns)
    table.twins = TwinForecasts(made.about.pair, made.start_point, every, answers)
    return table


def shorten(made: EpisodeTable, instants: int) -> EpisodeTable:
    """The last `instants` of each run, as if its predecessor had started then."""
    begins_s = int(made.instant_s[-instants])
    columns = {
        name: column[:, -instants:] if column.shape[:2] == made.outcome_s.shape else column
        for name, column in ((name, made._columns[name]) for name in made._columns)
    }
    columns |= {
        "instant_s": made.instant_s[-instants:] - made.instant_s[-instants],
        "predecessor_start": made.predecessor_start + begins_s,
    }
    about = replace(made.about, time_limit_s=made.about.time_limit_s - begins_s)
    return EpisodeTable(about, columns)


def shuffled(made: EpisodeTable, seed: int = 0) -> EpisodeTable:
    """The outcomes given to other episodes than those they came of."""
    order = np.random.default_rng(seed).permutation(len(made))
    columns = {name: made._columns[name] for name in made._columns}
    return EpisodeTable(made.about, columns | {"outcome_s": made.outcome_s[order]})


def _waits_h(
    rng: np.random.Generator, episodes: int, load_until: float, loads: Sequence[float]
) -> NDArray[np.float64]:
    """[E, T]: a day's load, which an episode follows with its own noise."""
    day = np.arange(episodes) // EACH_DAY
    drawn = rng.uniform(-load_until, load_until, day.max() + 1)
    load = np.asarray(loads if loads else drawn)[day]
    drift = np.cumsum(rng.normal(0.0, 0.05, (episodes, INSTANTS)), axis=1)
    waits_h: NDArray[np.float64] = np.maximum(load[:, None] + drift, 0.0)
    return waits_h


def _seen(rng: np.random.Generator, waits_h: NDArray[np.float64]) -> NDArray[np.float32]:
    """[E, T, F]: a plan that is wrong by a fifth or so, the time left, and noise."""
    seen = rng.normal(0.0, 0.1, (*waits_h.shape, len(spec.NAMES)))
    planned_h = waits_h * np.exp(rng.normal(0.0, 0.2, waits_h.shape))
    seen[..., spec.PLACES["plan_wait"]] = np.log1p(planned_h)
    seen[..., spec.PLACES["predecessor_left"]] = np.log1p(LEFT_S / HOUR_S)
    gap_h = planned_h - LEFT_S / HOUR_S
    seen[..., spec.PLACES["plan_gap"]] = np.sign(gap_h) * np.log1p(np.abs(gap_h))
    return seen.astype(np.float32)
