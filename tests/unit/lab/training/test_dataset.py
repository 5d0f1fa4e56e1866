"""Training rows are the tables' rows, without the instant at which nobody decides."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.dataset import FEWEST_INSTANTS, Rows, choose_step, list_decision_instants
from tests.support.episodes.tables import HOUR_S, MONDAY, table
from tests.support.training.queue_tables import INSTANTS, queue_table


def with_observations(made: EpisodeTable, value: float) -> EpisodeTable:
    seen = made.observations.copy()
    seen[3, 2, 1] = value
    return EpisodeTable(made.metadata, {**made._columns, "observations": seen})


def test_the_predecessors_end_is_no_decision_but_an_outcome() -> None:
    made = queue_table(12)
    rows = Rows.from_tables([made])
    assert rows.observations.shape[:2] == (12, INSTANTS - 1)
    np.testing.assert_array_equal(rows.outcome_h, made.outcome_h)
    assert rows.left_h[0] == 4.0
    assert rows.left_h[-1] == pytest.approx(1 / 6)


def test_the_wait_is_the_outcome_and_what_was_left() -> None:
    made = table([[-0.25, 0.0, 0.5]])
    metadata = queue_table(1).metadata
    seen = np.zeros((1, 3, len(metadata.features)), dtype=np.float32)
    known = replace(
        made.metadata,
        features=metadata.features,
        features_fingerprint=metadata.features_fingerprint,
    )
    rows = Rows.from_tables([EpisodeTable(known, {**made._columns, "observations": seen})])
    np.testing.assert_allclose(rows.wait_h, [-0.25 + 1 / 3, 1 / 6])
    assert rows.known_at.tolist() == [MONDAY + 1200 + HOUR_S // 2]


def test_thinned_rows_are_counted_back_from_the_end() -> None:
    rows = Rows.from_tables([queue_table(6)], every=6)
    np.testing.assert_allclose(rows.left_h, [4.0, 3.0, 2.0, 1.0])
    assert rows.outcome_h.shape == (6, 5)


def test_tables_are_put_in_the_order_of_time() -> None:
    later = queue_table(6, seed=1, first=MONDAY + 86400 * 7)
    rows = Rows.from_tables([later, queue_table(6)])
    assert (np.diff(rows.start_point) > 0).all()
    np.testing.assert_array_equal(rows.outcome_h[6:], later.outcome_h)


def test_what_cannot_be_learned_from_is_refused_in_a_sentence() -> None:
    made = queue_table(6)
    with pytest.raises(InputError, match="other features"):
        Rows.from_tables([table([[0.0, 1.0]])])
    with pytest.raises(InputError, match="no episode"):
        Rows.from_tables([])
    with pytest.raises(InputError, match="not finite"):
        Rows.from_tables([with_observations(made, np.nan)])
    short = EpisodeTable(
        made.metadata,
        {
            name: column[:, :-1] if column.shape[:2] == (6, INSTANTS) else column
            for name, column in made._columns.items()
        }
        | {"instant_s": made.instant_s[:-1]},
    )
    with pytest.raises(InputError, match="time limit"):
        Rows.from_tables([made, short])


@pytest.mark.parametrize(
    ("minutes", "learned"),
    [(30, 3), (90, 9), (120, 12), (240, 12), (300, 15), (720, 12), (1440, 24), (2880, 48)],
)
def test_a_short_link_shows_as_many_instants_as_one_of_half_a_day(
    minutes: int, learned: int
) -> None:
    instants = minutes // 10 + 1
    decisions = list_decision_instants(instants, choose_step(instants))[:-1]
    assert len(decisions) == learned
    assert len(decisions) >= min(FEWEST_INSTANTS, instants - 1)
