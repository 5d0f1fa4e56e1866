"""What hand-overs cost."""

import numpy as np

from mirage.judging import policy_runner
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.table.episode_table import EpisodeTable

PRICE = 0.5
"""Of an hour of overlap, in hours of interruption."""


def compute_mean_cost_h(table: EpisodeTable, instants: policy_runner.ChosenInstants) -> float:
    """Compute the mean cost of a hand-over of the table, in hours, at `PRICE`."""
    return float(HandoverOutcomes.from_choices(table, instants).compute_cost_h(PRICE).mean())


def find_best_constant(table: EpisodeTable) -> int:
    """Find the instant that costs least, in the mean, as the release of all hand-overs of a table;
    of equals the last."""
    mean_h = [
        compute_mean_cost_h(table, np.full(len(table), k, dtype=np.int64))
        for k in range(table.outcome_s.shape[1])
    ]
    return len(mean_h) - 1 - int(np.argmin(mean_h[::-1]))
