"""The twin's forecasts for the hand-overs of a table, in a file beside it: E.npz, E.twin.npz.

They are no part of the table, since they take ten times as long to make. The twin is asked at most
`QUESTIONS_PER_RUN` times in a predecessor's run how long its successor would wait. Between two
questions the last answer holds, as in the service.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage import npz_reader
from mirage.domain.arrays import Ints
from mirage.errors import InputError
from mirage.twin.twin_features import LEVELS

FORMAT = "mirage-twins/1"
QUESTIONS_PER_RUN = 48
"""The most questions to the twin in the run of one predecessor."""


@dataclass(frozen=True, slots=True)
class TwinForecasts:
    """The twin's forecasts for E hand-overs, with A questions each."""

    pair: str
    """What the table's hand-overs depend on (`TableMetadata.pair`)."""
    start_point: Ints
    """[E], epoch seconds, ascending."""
    every: int
    """The number of instants from one question to the next. The first question is at the run's
    start."""
    quantile_s: NDArray[np.int32]
    """[E, A, 19]: quantiles of the wait in seconds, for a release at that instant, at
    `twin_features.LEVELS`."""

    def get_forecast(self, i: int, k: int) -> NDArray[np.int32]:
        """Return the forecast [19] that is known at the k-th instant of the i-th hand-over: the
        last answer."""
        answer: NDArray[np.int32] = self.quantile_s[i, k // self.every]
        return answer

    def get_forecasts(self, instants: Ints) -> NDArray[np.int32]:
        """Return the forecasts [E, len(instants), 19] of all hand-overs; at the run's end the
        last answer."""
        questions = np.minimum(instants // self.every, self.quantile_s.shape[1] - 1)
        answers: NDArray[np.int32] = self.quantile_s[:, questions]
        return answers

    def select_episodes(self, rows: Ints) -> Self:
        """Return the forecasts for some of the hand-overs, by their numbers, ascending."""
        return type(self)(self.pair, self.start_point[rows], self.every, self.quantile_s[rows])

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("wb") as file:
                np.savez_compressed(
                    file,
                    format=np.array(FORMAT),
                    pair=np.array(self.pair),
                    start_point=self.start_point,
                    every=np.array(self.every),
                    quantile_s=self.quantile_s,
                )
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load the forecasts of a file. Raises InputError if it holds none, or is damaged."""
        try:
            with npz_reader.open_archive(path) as archive:
                _check_format(path, str(npz_reader.read_array(archive, "format")))
                twins = cls(
                    pair=str(npz_reader.read_array(archive, "pair")),
                    start_point=npz_reader.read_array(archive, "start_point").astype(np.int64),
                    every=int(npz_reader.read_array(archive, "every")),
                    quantile_s=npz_reader.read_array(archive, "quantile_s").astype(np.int32),
                )
        except InputError:
            raise
        # zlib's error is no OSError, and numpy has several of its own: none is a fault of ours.
        except Exception as error:
            raise InputError(f"{path} cannot be read as the twin's forecasts: delete it") from error
        shape = (len(twins.start_point), twins.quantile_s.shape[1:2], (len(LEVELS),))
        if twins.quantile_s.shape != (shape[0], *shape[1], *shape[2]) or twins.every < 1:
            raise InputError(f"{path} is damaged: delete it")
        return twins


def _check_format(path: Path, file_format: str) -> None:
    if file_format != FORMAT:
        raise InputError(f"{path} has another format than {FORMAT}: delete it")


def get_twin_path(table: Path) -> Path:
    """Return the path of the forecasts for a table's file."""
    return table.with_suffix(".twin.npz")


def compute_question_step(instants: int) -> int:
    """Compute the number of instants between two questions, for a run of so many instants (its
    end not counted)."""
    return max(1, -(-instants // QUESTIONS_PER_RUN))


def join_forecasts(parts: Sequence[TwinForecasts]) -> TwinForecasts:
    """Join forecasts of the same pair, in the order given."""
    first = parts[0]
    return TwinForecasts(
        pair=first.pair,
        start_point=np.concatenate([p.start_point for p in parts]),
        every=first.every,
        quantile_s=np.concatenate([p.quantile_s for p in parts]),
    )
