"""`python -m benchmarks.returns_live`: hand-overs with returns on the simulator itself."""

from dataclasses import replace

import numpy as np

from benchmarks.returns_live import play_releases
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.policies.rules.return_rule import BACK_S
from tests.support.episodes import small
from tests.support.episodes.tables import HOUR_S


def test_a_single_release_comes_to_what_the_table_says() -> None:
    settings = small.settings()
    worlds = TraceReplay(small.params(), small.trace(1), settings)
    instant_s = settings.instant_s.tolist()
    for point in settings.start_points:
        world = worlds.fork_without_history(point)
        assert world is not None
        rows = replace(world, sim=world.sim.fork()).compute_outcomes(
            world.start + settings.instant_s.astype(np.int64)
        )
        for k in (0, 5, len(rows) - 1):
            apart = replace(world, sim=world.sim.fork())
            done = play_releases(apart, worlds.link, [instant_s[k]])
            assert done is not None
            assert (done.outcome_s, done.returns) == (rows[k], 0)


def test_a_link_that_gives_its_nodes_back_starts_again_and_its_visit_counts() -> None:
    settings = small.settings()
    worlds = TraceReplay(small.params(), [], settings)
    world = worlds.fork_without_history(settings.since)
    assert world is not None
    done = play_releases(world, worlds.link, [0, HOUR_S, 2 * HOUR_S - 1200])
    assert done is not None
    assert done.returns == 2
    assert -1200 <= done.outcome_s <= -1200 + BACK_S
