"""A trained model in its folder models/NAME/VERSION: policy.onnx, and card.json, which describes
it.

Nothing in the folder is pickled. A model that is damaged, of another format or made for other
features is refused, since a model that reads other numbers than it was trained on would still
answer.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Observations
from mirage.domain.decision import Decision, PolicyView
from mirage.errors import UnfitModel
from mirage.observation import spec
from mirage.policies.models.agent_model import AgentModel
from mirage.policies.models.onnx_session import ADVANTAGE, open_session
from mirage.policies.models.scope import Scope
from mirage.policies.models.tree_model import TreeModel
from mirage.policies.results import card_results

FORMAT = "mirage-model/1"
GRAPH, CARD = "policy.onnx", "card.json"

STRANGE_BY = 1.0
"""A number may lie this far outside the training range, on the scale of `spec`. For numbers on a
logarithmic scale this is a factor of e."""

MOST_STRANGE = 3
"""So many numbers of an observation may lie further outside. In an ordinary week of a site it is
one of them; where the load is elsewhere, it is many (decision 0027)."""

NOT_IN_TABLES = ("nodes_down", "own_running_jobs", "own_pending_jobs")
"""Features that are constant in tables: a replay loses no nodes, and its pair has no other jobs.
A model has learned nothing about them, so it is shown the nearest value of its training range."""
_NOT_IN_TABLES = [spec.PLACES[name] for name in NOT_IN_TABLES]
_MARGIN = np.full(len(spec.FEATURE_NAMES), STRANGE_BY, dtype=np.float32)
"""[F]: how far outside the training range a model is shown a number, at most."""
_MARGIN[_NOT_IN_TABLES] = 0.0


@dataclass(frozen=True, slots=True)
class TrainingRange:
    """The least and the greatest value of each feature in the training: [F] each."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def clamp_to_learned(self, observations: Observations) -> Observations:
        """Return the observations [..., F], with numbers that lie further outside the training
        range than `_MARGIN` moved that near."""
        clamped: Observations = np.clip(observations, self.low - _MARGIN, self.high + _MARGIN)
        return clamped

    def explain_out_of_range(self, observation: Observations) -> str | None:
        """Explain why a model should not be asked about this observation [F]; None if it may be
        asked."""
        if observation.shape != self.low.shape:
            return f"the observation has {observation.size} numbers, not {self.low.size}"
        if not np.isfinite(observation).all():
            return "the observation holds numbers that are not finite"
        distance = np.maximum(self.low - observation, observation - self.high)
        distance[_NOT_IN_TABLES] = 0.0
        if (distance > STRANGE_BY).sum() > MOST_STRANGE:
            worst = spec.FEATURE_NAMES[int(distance.argmax())]
            return f"{worst} is far from all that the model has learned from"
        return None


class Model(Protocol):
    """One kind of graph, and what its outputs mean."""

    prices: tuple[float, float]
    """The least and the greatest overlap price that it may be asked at."""
    window: int
    """The number of latest observations that the model is shown; 0: only the present one."""

    def decide_handover(self, view: PolicyView, name: str) -> Decision | str:
        """Decide under the name of a policy. The view's observation must exist and lie in the
        training range. Returns the reason as text if the model has no answer."""
        ...


class Artefact:
    """A model that was checked and is ready to answer. onnxruntime runs it on one thread."""

    def __init__(self, card: dict[str, Any], graph: bytes) -> None:
        self.card = card
        self.training_range = TrainingRange(
            # The twin's features are hours. A wait longer than all in the training is just long.
            *(
                np.array(card["seen"][end], dtype=np.float32)[: len(spec.FEATURE_NAMES)]
                for end in ("low", "high")
            )
        )
        self.scope = Scope.from_card(card)
        self.card_results = card_results.parse_card(card)
        kind = AgentModel if ADVANTAGE in card else TreeModel
        self.model: Model = kind(card, open_session(graph))

    @classmethod
    def load(cls, folder: Path) -> "Artefact":
        """Load the model of a folder. Raises UnfitModel if this program cannot run it."""
        card = read_card(folder)
        graph = _read_file(folder / GRAPH)
        _check_card(folder, card, hashlib.sha256(graph).hexdigest())
        try:
            return cls(card, graph)
        # onnxruntime has a dozen errors of its own, and a card may hold anything.
        except Exception as error:
            raise UnfitModel(f"{folder}: the model cannot be loaded: {error}") from error


def read_card(folder: Path) -> dict[str, Any]:
    """Read card.json and check its keys. Raises UnfitModel."""
    try:
        card = json.loads(_read_file(folder / CARD))
    except ValueError as error:
        raise UnfitModel(f"{folder}: {CARD} is not valid JSON") from error
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise UnfitModel(
            f"{folder}: {CARD} has another format than {FORMAT}: train the model again"
        )
    missing = [key for key in _list_required_keys(card) if key not in card]
    if missing:
        raise UnfitModel(f"{folder}: {CARD} lacks {', '.join(missing)}")
    return card


def check_graph(folder: Path, card: dict[str, Any]) -> None:
    """Check the graph without running it. It is read again only if the file has changed.

    Raises UnfitModel if the graph is not the one that the card describes, or is for other features.
    """
    path = folder / GRAPH
    try:
        status = path.stat()
    except OSError as error:
        raise UnfitModel(f"{path} cannot be read: {error.strerror}") from error
    _check_card(folder, card, _hash_file(path, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=512)
def _hash_file(path: Path, _changed_ns: int, _size: int) -> str:
    return hashlib.sha256(_read_file(path)).hexdigest()


def _check_card(folder: Path, card: dict[str, Any], digest: str) -> None:
    if digest != card["sha256"]:
        raise UnfitModel(f"{folder}: {GRAPH} is not the file that {CARD} describes")
    if card["features_fingerprint"] != spec.FINGERPRINT:
        raise UnfitModel(
            f"{folder} was trained on other features than this program's: train the model again"
        )


def _list_required_keys(card: dict[str, Any]) -> Sequence[str]:
    """List the keys that a card must have: among them an agent's advantage, or a forecast."""
    output = ADVANTAGE if ADVANTAGE in card else "forecast"
    return ("sha256", "features_fingerprint", "seen", "family", output)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnfitModel(f"{path} cannot be read: {error.strerror}") from error
