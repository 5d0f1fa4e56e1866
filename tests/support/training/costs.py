"""What hand-overs cost."""

from mirage.judging import policy_runner
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.table.episode_table import EpisodeTable

PRICE = 0.5
"""Of an hour of overlap, in hours of interruption."""


def compute_mean_cost_h(table: EpisodeTable, instants: policy_runner.ChosenInstants) -> float:
    """Compute the mean cost of a hand-over of the table, in hours, at `PRICE`."""
    return float(HandoverOutcomes.from_choices(table, instants).compute_cost_h(PRICE).mean())
