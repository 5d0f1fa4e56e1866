"""The library of snapshots: as good as a replay up to the instant."""

import numpy as np
import pytest

from benchmarks import simulator_workloads as workloads
from mirage.domain.time_units import DAY_S
from mirage.sim.arrays.layout import ID
from mirage.sim.checkpoints import ReplayCheckpoints
from mirage.sim.simulator import Simulator
from tests.support.sim.scenes import T0, job_at, site

_TABLE = workloads.whole_nodes(400, 1.05)
_PARAMS = workloads.whole_node_params()


def _replayed(until: int) -> Simulator:
    simulator = Simulator(_PARAMS, workloads.jobs(_TABLE))
    simulator.advance_quietly(until)
    return simulator


def test_an_instant_from_the_library_is_that_of_a_replay() -> None:
    first = int(_TABLE.submit[0])
    last = int(_TABLE.submit[-1])
    library = ReplayCheckpoints(Simulator(_PARAMS, workloads.jobs(_TABLE)), last)
    assert len(library) == (last - first) // DAY_S + 1
    # Out of order, on a snapshot, between two, and after the last.
    for instant in (last + 5000, first + DAY_S, first, (first + last) // 2, last):
        ours, whole = library.fork_at(instant), _replayed(instant)
        assert ours.now == whole.now == instant
        assert ours.compute_planned_starts() == whole.compute_planned_starts()
        mine, other = ours.get_live_columns(), whole.get_live_columns()
        np.testing.assert_array_equal(mine.queued[:, ID], other.queued[:, ID])
        np.testing.assert_array_equal(mine.running[:, ID], other.running[:, ID])


def test_what_is_done_to_one_changes_no_other() -> None:
    library = ReplayCheckpoints(Simulator(site(), [job_at(1, 100, nodes=4)], now=T0), T0 + DAY_S)
    changed = library.fork_at(T0 + 50)
    changed.inject(job_at(0, nodes=4, limit=5000))
    changed.advance(T0 + 110)
    # On the grid of a minute.
    assert changed.compute_planned_starts() == {1: T0 + 5100}
    untouched = library.fork_at(T0 + 110).find(1)
    assert untouched is not None
    assert untouched.start == T0 + 100


def test_before_the_first_there_is_nothing() -> None:
    library = ReplayCheckpoints(_replayed(int(_TABLE.submit[0]) + 50), int(_TABLE.submit[-1]))
    with pytest.raises(ValueError, match="before the first snapshot"):
        library.fork_at(int(_TABLE.submit[0]))
