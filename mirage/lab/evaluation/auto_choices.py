"""Counts which candidates decided for `auto` in an evaluation, and which it skipped, and why."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mirage.policies.auto_policy import Choice


class AutoChoiceCounter:
    """Counts the choices of `auto`: one for each decision."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._skip_counts: Counter[str] = Counter()

    def __call__(self, choice: Choice) -> None:
        self._counts[choice.policy.name] += 1
        self._skip_counts.update(f"{name}: {reason}" for name, reason in choice.skipped.items())

    def summarize_choices(self) -> dict[str, Any]:
        """Return the share of all decisions of each candidate, and how often candidates were
        skipped, by reason."""
        total = self._counts.total()
        shares = {name: count / total for name, count in self._counts.most_common()}
        return {"auto_chosen": shares, "auto_skipped": dict(self._skip_counts.most_common())}


def format_auto_choices(figures: Mapping[str, Any]) -> str:
    """Describe the figures of `AutoChoiceCounter.summarize_choices` in words."""
    return "\n".join(_format_lines(figures))


def _format_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    shares = figures["auto_chosen"].items()
    yield "auto let these policies decide: " + ", ".join(
        f"{n} ({share:.0%})" for n, share in shares
    )
    for reason, count in figures["auto_skipped"].items():
        yield f"skipped {count} times: {reason}"
