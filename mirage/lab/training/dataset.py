"""Training rows from episode tables: the observation at each instant, and its outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.domain.time_units import HOUR_S
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.observation import spec
from mirage.policies.models import conformal, quantiles
from mirage.twin import twin_features

FEWEST_INSTANTS = 12
"""The instants of a link that a model learns from, at least, where the time limit has so many. The
shortest links of the published figures, 12 h of ThetaGPU, have so many at one an hour."""
_LONGEST_STEP = 6
"""One instant an hour. Neighbouring instants are nearly the same row."""


@dataclass(frozen=True, slots=True)
class Rows:
    """E hand-overs with D decision instants each. The predecessor's end is no decision: nobody
    acts then."""

    observations: Observations
    """[E, D, F], in the order of `spec.FEATURE_NAMES`; with the twin, those of `twin_features`
    follow."""
    outcome_h: Floats
    """[E, D + 1], signed hours; the last column is the reactive hand-over's."""
    left_h: Floats
    """[D]: hours of the predecessor's run at each instant."""
    start_point: Ints
    """[E]: start points, epoch seconds, ascending."""
    known_at: Ints
    """[E]: when the last of an episode's outcomes was known, epoch seconds."""
    as_logged: Flags
    """[E]: whether the hand-over was simulated at the trace's own load. Models learn from the
    others too, but are not judged by them."""

    @classmethod
    def from_tables(
        cls, tables: Sequence[EpisodeTable], every: int = 1, *, twin: bool = False
    ) -> Self:
        """Build the rows from every `every`-th instant, counted back from the predecessor's end.

        `twin`: with the features of the twin's forecasts. Raises InputError if a table lacks them,
        if there is no episode, for other features than this program's, for tables whose
        predecessors run for different times, and for observations that are not finite.
        """
        _check_tables(tables)
        instant_s = tables[0].instant_s.astype(np.int64)
        decision_instants = list_decision_instants(len(instant_s), every)
        rows = cls(
            observations=np.concatenate(
                [_build_observations(t, decision_instants[:-1], twin=twin) for t in tables]
            ),
            outcome_h=np.concatenate([t.outcome_h[:, decision_instants] for t in tables]),
            left_h=(instant_s[-1] - instant_s[decision_instants[:-1]]) / HOUR_S,
            start_point=np.concatenate([t.start_point for t in tables]),
            known_at=np.concatenate([compute_known_at(t) for t in tables]),
            as_logged=np.concatenate([np.full(len(t), t.metadata.has_logged_load) for t in tables]),
        )
        _check_finite(rows)
        return rows.select_episodes(order_episodes(tables))

    def __len__(self) -> int:
        return len(self.start_point)

    @property
    def flat(self) -> Observations:
        """[E x D, F]."""
        return self.observations.reshape(-1, self.observations.shape[2])

    @property
    def twin(self) -> str | None:
        """The fingerprint of the twin's features, if the rows have them."""
        return (
            twin_features.FINGERPRINT
            if self.observations.shape[2] > len(spec.FEATURE_NAMES)
            else None
        )

    @property
    def wait_h(self) -> Floats:
        """[E x D]: the wait of the successor in hours, for a release at that instant."""
        waits: Floats = (self.outcome_h[:, :-1] + self.left_h).ravel()
        return np.maximum(waits, 0.0)

    @property
    def nodes(self) -> Ints:
        """[E]: the successor's nodes."""
        return conformal.decode_nodes(self.observations[:, 0])

    def compute_residuals(self, log_quantiles: Floats) -> Floats:
        """Compute the residuals [E, D, Q]: log(1 + wait) less a forecast [E x D, Q]."""
        residuals: Floats = np.log1p(self.wait_h)[:, None] - quantiles.normalize_quantiles(
            log_quantiles
        )
        return residuals.reshape(len(self), len(self.left_h), -1)

    @property
    def logged_rows(self) -> Self:
        """Select the hand-overs at the trace's own load."""
        return self.select_episodes(self.as_logged)

    def select_episodes(self, episodes: Flags | Ints) -> Self:
        """Select some of the episodes."""
        return type(self)(
            observations=self.observations[episodes],
            outcome_h=self.outcome_h[episodes],
            left_h=self.left_h,
            start_point=self.start_point[episodes],
            known_at=self.known_at[episodes],
            as_logged=self.as_logged[episodes],
        )


def order_episodes(tables: Sequence[EpisodeTable]) -> Ints:
    """Return the order in which `Rows` has the episodes of the tables, one table after another."""
    return np.argsort(np.concatenate([t.start_point for t in tables]), kind="stable")


def choose_step(instants: int) -> int:
    """Choose how many ten-minute instants lie between two that a model learns from.

    `instants`: those of a table, the predecessor's end included. Of a link of 12 h or more a model
    sees one an hour. A shorter link has more to show: at one an hour, one of 90 min would show a
    single release.
    """
    return min(_LONGEST_STEP, max(1, (instants - 1) // FEWEST_INSTANTS))


def list_decision_instants(instants: int, every: int) -> Ints:
    """List every `every`-th instant, counted back from the predecessor's end, which is the last."""
    decisions = np.arange(instants - 1, -1, -every)[::-1]
    return decisions if len(decisions) > 1 else np.array([0, instants - 1])


def build_twin_features(table: EpisodeTable, instants: Ints) -> Observations:
    """Build the twin's features [E, len(taken), len(twin_features.FEATURE_NAMES)].

    Raises InputError if the table lacks the twin's forecasts.
    """
    if table.twins is None:
        raise InputError(
            f"A table of {table.metadata.trace} lacks the twin's forecasts: make it with "
            "`mirage episodes --twin`."
        )
    left_s = table.instant_s[-1] - table.instant_s[instants].astype(np.int64)
    return twin_features.compute_twin_features(table.twins.get_forecasts(instants), left_s)


def _build_observations(table: EpisodeTable, instants: Ints, *, twin: bool) -> Observations:
    """Build the observations [E, D, F] of the instants `instants`."""
    observations: Observations = table.observations[:, instants]
    if not twin:
        return observations
    return np.concatenate([observations, build_twin_features(table, instants)], axis=2)


def compute_known_at(table: EpisodeTable) -> Ints:
    """Compute when the last of each episode's outcomes was known, [E], epoch seconds."""
    latest: Ints = table.outcome_s.max(axis=1).astype(np.int64)
    return table.predecessor_end + np.maximum(latest, 0)


def _check_tables(tables: Sequence[EpisodeTable]) -> None:
    if not sum(map(len, tables)):
        raise InputError("There is no episode to learn from.")
    if any(t.metadata.features_fingerprint != spec.FINGERPRINT for t in tables):
        raise InputError(
            "A table was made with other features than this program's: make it again with "
            "`mirage episodes`."
        )
    if len({t.instant_s.tobytes() for t in tables}) > 1:
        raise InputError("The tables differ in time limit: train a model for each time limit.")
    if len(tables[0].instant_s) < 2:  # noqa: PLR2004 - an instant, and the end
        raise InputError("The tables hold no decision instant before the predecessor's end.")


def _check_finite(rows: Rows) -> None:
    if not np.isfinite(rows.observations).all():
        raise InputError("A table has observations that are not finite: make it again.")
