"""Says for which chains a model may decide: chains like those that it was trained on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

ALIKE = 1.25
"""Two time limits within this factor count as the same."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The chains that a model was trained on, from its card. A field that the card lacks is
    empty, and rules out no chain."""

    clusters: frozenset[str]
    nodes: tuple[int, ...]
    limits_s: tuple[int, ...]
    training_ends: tuple[tuple[str, int], ...] = ()
    """(cluster, last start point of its training there in epoch seconds)."""

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> Self:
        tables = card.get("trained_on", [])
        return cls(
            clusters=frozenset(str(t["cluster"].get("name", "")) for t in tables) - {""},
            nodes=tuple(sorted(int(t["nodes"]) for t in tables)),
            limits_s=tuple(int(t["time_limit_s"]) for t in tables),
            training_ends=tuple(
                (str(t["cluster"].get("name", "")), int(t.get("until", 0))) for t in tables
            ),
        )

    def was_trained_after(self, cluster: str, since: int) -> bool:
        """Return whether the model was trained on that cluster's hand-overs at or after `since`.

        The end of the training counts: the model did not exist before, so earlier hand-overs do not
        count as unseen either.
        """
        return any(c == cluster and since < last for c, last in self.training_ends)

    def get_trained_until(self, cluster: str) -> int:
        """Return the last start point of the training on that cluster, epoch seconds, or 0."""
        return max((last for c, last in self.training_ends if c == cluster), default=0)

    def explain_outside(self, nodes: int, time_limit_s: int) -> str | None:
        """Explain why the model is not meant for chains of this size; None if it is. Sizes
        between two trained sizes are inside."""
        if self.nodes and not self.nodes[0] <= nodes <= self.nodes[-1]:
            sizes = " and ".join(dict.fromkeys(map(str, (self.nodes[0], self.nodes[-1]))))
            return f"it was trained for {sizes} node(s), not {nodes}"
        if self.limits_s and not any(_is_alike(limit, time_limit_s) for limit in self.limits_s):
            return f"it was trained for a time limit of {self.limits_s[0]} s, not {time_limit_s} s"
        return None


def _is_alike(one: int, other: int) -> bool:
    return one <= other * ALIKE and other <= one * ALIKE
