"""How often a year of challengers promotes one that is no better, and how soon a better one is
promoted and a worse champion taken back.

`python -m benchmarks.learning_years` plays years of a site: sample hand-overs and owners of many
and of few, differences in cost that last for days, and judgements as the service makes them
(mirage/judging/challenge.py). Prints a table, or JSON with --json. Takes minutes of one core.
"""

import argparse
import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.domain.time_units import DAY_S
from mirage.judging.challenge import (
    CHALLENGER,
    CHAMPION,
    MOST_JUDGEMENTS,
    ChallengeOutcomes,
    Judgement,
    decide_challenge,
    judge_challenge,
    judge_champion,
)

YEAR_DAYS, SHADOW_DAYS, ROLLBACK_DAYS, LOOK_DAYS = 365, 14, 21, 7
HANDOVERS_A_DAY = (8.0, 3.0, 1.0, 0.5, 0.3, 0.1, 0.1, 0.05, 0.05)
"""Mean hand-overs a day of each owner; the first are the sample's, which come each day."""
QUANTILE = "quantile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How the cost of two equally good policies differs, in hours a hand-over."""

    day_h: float = 1.0
    """Standard deviation of what all hand-overs of a day share."""
    handover_h: float = 2.0
    """Standard deviation of what each hand-over has alone."""
    span_days: int = 3
    """A day shares its part with the days before it: the mean of so many independent ones."""
    tail: float = 0.5
    """Width of the log-normal load by which a day's differences are multiplied."""

    def draw_days(self, rng: np.random.Generator, days: int) -> NDArray[np.float64]:
        """Draw the differences [E] of some days, and their start points and owners: [3, E]."""
        load = np.exp(self.tail * self._smooth(rng, days))
        shared_h = self.day_h * self._smooth(rng, days)
        counts = rng.poisson(HANDOVERS_A_DAY, size=(days, len(HANDOVERS_A_DAY)))
        counts[:, 0] = round(HANDOVERS_A_DAY[0])
        day = np.repeat(np.arange(days), counts.sum(axis=1))
        owner = np.concatenate([np.repeat(np.arange(len(row)), row) for row in counts])
        own_h = rng.normal(0.0, self.handover_h, len(day))
        return np.stack([load[day] * (shared_h[day] + own_h), day * DAY_S, owner])

    def _smooth(self, rng: np.random.Generator, days: int) -> NDArray[np.float64]:
        """Draw a value a day, of standard deviation 1, each like those of the days before."""
        drawn = rng.normal(0.0, 1.0, days + self.span_days - 1)
        kernel = np.full(self.span_days, 1.0 / np.sqrt(self.span_days))
        return np.convolve(drawn, kernel, mode="valid")


def play_challengers(
    seed: int, *, gain_h: float, noise: Noise, days: int = YEAR_DAYS
) -> int | None:
    """Play a year of challengers, one after the other, each cheaper by `gain_h` in truth.

    Returns the day on which the first one was promoted; None: none was. All beat the rules.
    """
    rng, judgements = np.random.default_rng(seed), 0
    drawn = noise.draw_days(rng, MOST_JUDGEMENTS * SHADOW_DAYS)
    for day in range(SHADOW_DAYS, days + 1, SHADOW_DAYS):
        judgements += 1
        past = drawn[:, drawn[1] < judgements * SHADOW_DAYS * DAY_S]
        outcomes = _build_outcomes(past, gain_h, CHALLENGER, CHAMPION)
        judgement = decide_challenge(judge_challenge(outcomes), judgements)
        if judgement is Judgement.BETTER:
            return day
        if judgement is Judgement.NO_BETTER:
            drawn, judgements = noise.draw_days(rng, MOST_JUDGEMENTS * SHADOW_DAYS), 0
    return None


def play_champion(seed: int, *, loss_h: float, noise: Noise, days: int = 120) -> int | None:
    """Play a champion that is dearer than the rule by `loss_h` in truth. It is judged whenever a
    week more can be replayed.

    Returns the day on which it was taken back; None: it was not.
    """
    drawn = noise.draw_days(np.random.default_rng(seed), days)
    for day in range(LOOK_DAYS, days + 1, LOOK_DAYS):
        newest = (drawn[1] < day * DAY_S) & (drawn[1] >= (day - ROLLBACK_DAYS) * DAY_S)
        outcomes = _build_outcomes(drawn[:, newest], -loss_h, CHAMPION, QUANTILE)
        if judge_champion(outcomes).is_worse:
            return day
    return None


def _build_outcomes(
    drawn: NDArray[np.float64], gain_h: float, judged: str, rival: str
) -> ChallengeOutcomes:
    """Build the hand-overs of a policy that is cheaper than its rival by `gain_h` in truth."""
    difference_h, at, owner = drawn
    rival_h = np.full(len(at), 10.0)
    cost_h = {judged: rival_h + difference_h - gain_h, rival: rival_h}
    cost_h.setdefault(QUANTILE, rival_h + 50.0)
    return ChallengeOutcomes(
        start_point=at.astype(np.int64), owner=owner.astype(np.int64), cost_h=cost_h
    )


def _summarize(days: list[int | None]) -> dict[str, Any]:
    end_days = sorted(day for day in days if day is not None)
    return {
        "share": len(end_days) / len(days),
        "median_days": end_days[len(end_days) // 2] if len(end_days) > len(days) / 2 else None,
        "p90_days": end_days[int(0.9 * len(days))] if len(end_days) > 0.9 * len(days) else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=200)
    parser.add_argument("--day-h", type=float, default=1.0, help="see Noise.day_h")
    parser.add_argument("--handover-h", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for span in (1, 3, 5):
        noise = Noise(day_h=options.day_h, handover_h=options.handover_h, span_days=span)
        for gain_h in (0.0, 0.25, 0.5, 1.0, 2.0):
            play = partial(play_challengers, gain_h=gain_h, noise=noise)
            figures = _summarize([play(seed) for seed in range(options.years)])
            rows.append({"what": "promoted in a year", "span": span, "h": gain_h, **figures})
        for loss_h in (0.0, 0.5, 1.0, 2.0, 4.0):
            worse = partial(play_champion, loss_h=loss_h, noise=noise)
            figures = _summarize([worse(seed) for seed in range(options.years // 5)])
            rows.append({"what": "taken back in 120 days", "span": span, "h": loss_h, **figures})
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['what']:24} span {row['span']} d, {row['h']:4.2f} h: {row['share']:6.1%}, "
            f"median day {row['median_days']}, of nine in ten {row['p90_days']}"
        )


if __name__ == "__main__":
    main()
