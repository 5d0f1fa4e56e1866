"""A trained model in its folder, models/NAME/VERSION: policy.onnx, and card.json that describes it.

Nothing in it is pickled. What is damaged, of another format or made for other features is refused:
a model that reads other numbers than it was trained on would still answer.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.errors import UnfitModel
from mirage.features import spec
from mirage.policy import judged, quantiles
from mirage.policy.scope import Scope

FORMAT = "mirage-model/1"
GRAPH, CARD = "policy.onnx", "card.json"
INPUT, LATE, WAIT = "observation", "late", "wait"
"""The graph's input float32[R, F], and its outputs float32[R, 1] and [R, Q] or [R, J]."""

STRANGE_BY = 1.0
"""How far beyond all that was learned from a number may lie, on the scale of `spec`: of what is
counted in logarithms, a factor of e."""

Floats = NDArray[np.float64]
Observations = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """How to read the output `wait`."""

    thresholds_h: tuple[float, ...]
    """Of the P(wait <= t) it gives; empty where it gives log quantiles at `quantiles.LEVELS`."""
    shift: tuple[float, ...]
    """The conformal adjustment of each quantile, log(1 + hours)."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From a card. Raises ValueError for other levels than this program's."""
        if tuple(told["levels"]) != quantiles.LEVELS:
            raise ValueError("its forecast has other quantiles than this program's")
        return cls(tuple(told["thresholds_h"]), tuple(told["shift"]))

    def hours(self, wait: NDArray[np.float32]) -> Floats:
        """[R, Q]."""
        if self.thresholds_h:
            logs = quantiles.of_distribution(wait, self.thresholds_h)
        else:
            logs = wait.astype(np.float64)
        return quantiles.hours(logs, self.shift)


@dataclass(frozen=True, slots=True)
class Seen:
    """The least and the greatest of each number learned from: [F]."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def strange(self, observation: Observations) -> str | None:
        """Why a model should not be asked about this observation [F]."""
        if observation.shape != self.low.shape:
            return f"the observation has {observation.size} numbers, not {self.low.size}"
        if not np.isfinite(observation).all():
            return "the observation holds numbers that are not finite"
        beyond = np.maximum(self.low - observation, observation - self.high)
        worst = int(beyond.argmax())
        if beyond[worst] > STRANGE_BY:
            return f"{spec.NAMES[worst]} is far from all that the model has learned from"
        return None


class Artefact:
    """A model that was checked and is ready to answer. onnxruntime runs it on one thread."""

    def __init__(self, card: dict[str, Any], graph: bytes) -> None:
        self.card = card
        self.factor = float(card["boundary"]["factor"])
        """Of the boundary (`policy.boundary`)."""
        self.seen = Seen(
            *(np.array(card["seen"][end], dtype=np.float32) for end in ("low", "high"))
        )
        self.scope = Scope.of(card)
        self.judged = judged.sets(card)
        self._forecasts = Forecasts.of(card["forecast"])
        self._session = session(graph)

    @classmethod
    def load(cls, folder: Path) -> "Artefact":
        """Raises UnfitModel where the folder holds none that this program can run."""
        card = read_card(folder)
        graph = _read(folder / GRAPH)
        _check(folder, card, graph)
        try:
            return cls(card, graph)
        # onnxruntime has a dozen errors of its own, and a card may hold anything.
        except Exception as error:
            raise UnfitModel(f"{folder}: the model does not load: {error}") from error

    def outputs(self, observations: Observations) -> tuple[Floats, Floats]:
        """[R]: P(late) if freed now; [R, Q]: the quantiles of the wait, hours."""
        late, wait = self._session.run([LATE, WAIT], {INPUT: observations})
        return np.clip(late[:, 0].astype(np.float64), 0.0, 1.0), self._forecasts.hours(wait)


def session(graph: bytes) -> Any:
    """An onnxruntime session on one thread: a decision is too small to share out."""
    import onnxruntime  # noqa: PLC0415 - a fifth of a second, and only a model needs it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def read_card(folder: Path) -> dict[str, Any]:
    """card.json, its keys checked. Raises UnfitModel."""
    try:
        card = json.loads(_read(folder / CARD))
    except ValueError as error:
        raise UnfitModel(f"{folder}: {CARD} does not read as JSON") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise UnfitModel(f"{folder}: {CARD} is not of the format {FORMAT}")
    absent = [key for key in _KEYS if key not in card]
    if absent:
        raise UnfitModel(f"{folder}: {CARD} lacks {', '.join(absent)}")
    return card


def _check(folder: Path, card: dict[str, Any], graph: bytes) -> None:
    if hashlib.sha256(graph).hexdigest() != card["sha256"]:
        raise UnfitModel(f"{folder}: {GRAPH} is not the file that {CARD} describes")
    if card["features_fingerprint"] != spec.FINGERPRINT:
        raise UnfitModel(f"{folder} was trained on other features than this program's")


_KEYS: Sequence[str] = ("sha256", "features_fingerprint", "boundary", "seen", "forecast", "family")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnfitModel(f"{path} cannot be read: {error.strerror}") from error
