"""The live form: forks of a simulator, in which the standby may be moved there and back."""

from dataclasses import replace

import gymnasium.utils.env_checker
import numpy as np
import pytest
import stable_baselines3.common.env_checker

from mirage.episodes.generation.builder import build_episodes
from mirage.episodes.generation.replay_fork import ReplayFork
from mirage.episodes.table.pair_settings import PairSettings
from mirage.errors import InputError
from mirage.learn.environment.chain_env import ChainEnv, ChainVectorEnv
from mirage.learn.environment.live_library import ForkBatch, LiveLibrary, ObservationKind
from mirage.learn.environment.protocols import PositionAction
from mirage.learn.environment.start_states import StartState, collect_start_states
from mirage.learn.environment.table_library import TableLibrary
from mirage.sim.simulator import Simulator
from mirage.sim.types import NodeEvent, Outage, Params, SimJob
from tests.integration.learn import scene

REGIMES = pytest.mark.parametrize("accrue_always", [False, True], ids=["default", "ACCRUE_ALWAYS"])


def freed_then(start: StartState, instant: int) -> float:
    """Outcome of one move, by a fork of its own: eligible from `instant` on, hours."""
    world = start.world
    fork = world.sim.fork()
    if instant < scene.INSTANTS - 1:
        fork.advance(world.start + 600 * instant)
        fork.set_dependencies(world.standby, ())
    started = fork.run_until_started(world.standby)
    assert started is not None
    return (started - world.end) / 3600


def outcome(env: ChainEnv, handover: int, positions: list[PositionAction]) -> tuple[float, float]:
    """(outcome, sum of rewards); after the last of `positions` the standby stays there."""
    env.reset(options={"handover": handover})
    total, step = 0.0, 0
    while True:
        action = positions[min(step, len(positions) - 1)]
        _, reward, ended, _, info = env.step(action)
        total, step = total + float(reward), step + 1
        if ended:
            return info["outcome_h"], total


def held_then_free(instant: int) -> list[PositionAction]:
    return [PositionAction.HELD] * instant + [PositionAction.FREE]


@REGIMES
def test_one_move_agrees_with_the_table_exactly(accrue_always: bool) -> None:
    library = scene.library(accrue_always)
    rows = [[freed_then(s, i) for i in range(scene.INSTANTS)] for s in library.starts[::3]]
    seen = np.zeros((scene.INSTANTS, 1))
    table = ChainEnv(TableLibrary((seen, row) for row in rows))
    live = ChainEnv(library)
    for number, row in enumerate(rows):
        for instant in (0, 1, 7, 20, scene.INSTANTS - 2, scene.INSTANTS - 1):
            moves = held_then_free(instant)
            assert outcome(live, 3 * number, moves) == outcome(table, number, moves)
            assert outcome(live, 3 * number, moves)[0] == row[instant]


@REGIMES
def test_the_full_form_is_the_episode_file_step_by_step(accrue_always: bool) -> None:
    """Observations and rewards, to the last bit, against what `mirage episodes` makes."""
    made = build_episodes(scene.params(accrue_always), scene.jobs(), scene.SETTINGS)
    table = ChainEnv(TableLibrary.from_tables([made]))
    live = ChainEnv(scene.library(accrue_always, ObservationKind.FULL))
    assert live.library.features == table.library.features
    assert len(live.library) == len(table.library)
    for handover in range(0, len(made), 4):
        for instant in (0, 3, scene.INSTANTS - 1):
            seen, told = table.reset(options={"handover": handover})
            same, alike = live.reset(options={"handover": handover})
            assert told == alike
            for _ in range(instant):
                np.testing.assert_array_equal(seen, same)
                seen, *_ = table.step(PositionAction.HELD)
                same, _, ended, _, _ = live.step(PositionAction.HELD)
                assert not ended
            np.testing.assert_array_equal(seen, same)
            moves = held_then_free(instant)
            assert outcome(live, handover, moves) == outcome(table, handover, moves)


@REGIMES
def test_holding_throughout_is_reactive(accrue_always: bool) -> None:
    library = scene.library(accrue_always)
    env = ChainEnv(library)
    for handover in range(len(library)):
        _, info = env.reset(options={"handover": handover})
        assert outcome(env, handover, [PositionAction.HELD])[0] == info["reactive_h"]


def test_pinned_throughout_never_overlaps_and_gains() -> None:
    library = scene.library()
    env = ChainEnv(library)
    pinned = np.array([outcome(env, h, [PositionAction.PINNED])[0] for h in range(len(library))])
    reactive = np.array([library.describe_episode(h)["reactive_h"] for h in range(len(library))])
    assert (pinned >= 0).all()
    assert pinned.mean() < reactive.mean()


def test_back_to_held_forfeits_age_and_pinning_keeps_it() -> None:
    """A standby that waits longer than an instant is back where it was, but for its age."""
    env = ChainEnv(scene.library())
    kept = 0
    for handover in range(len(env.library)):
        at_once = outcome(env, handover, [PositionAction.FREE])[0]
        late = outcome(env, handover, held_then_free(40))[0]
        there_and_back = (
            [PositionAction.FREE] * 10 + [PositionAction.HELD] * 30 + [PositionAction.FREE]
        )
        pinned_first = [PositionAction.PINNED] * 40 + [PositionAction.FREE]
        assert outcome(env, handover, there_and_back)[0] in (at_once, late)
        kept += outcome(env, handover, pinned_first)[0] < late
    assert kept > 0


@REGIMES
def test_gymnasium_and_stable_baselines_find_no_fault(accrue_always: bool) -> None:
    env = ChainEnv(scene.library(accrue_always))
    gymnasium.utils.env_checker.check_env(env, skip_render_check=True)
    stable_baselines3.common.env_checker.check_env(env)


@REGIMES
def test_many_go_as_each_would_alone(accrue_always: bool) -> None:
    library = scene.library(accrue_always)
    size = 5
    envs = ChainVectorEnv(library, size)
    alone = [ChainEnv(library) for _ in range(size)]
    seen, info = envs.reset(seed=3)
    for env, handover in zip(alone, info["handover"], strict=True):
        env.reset(options={"handover": handover})
    for row in np.random.default_rng(0).choice(3, p=[0.8, 0.05, 0.15], size=(120, size)):
        seen, reward, ended, _, info = envs.step(row)
        for i, env in enumerate(alone):
            last, alone_reward, alone_ended, _, told = env.step(row[i])
            assert (reward[i], ended[i]) == (alone_reward, alone_ended)
            if ended[i]:
                np.testing.assert_array_equal(info["final_obs"][i], last)
                assert {k: info["final_info"][k][i] for k in told} == told
                last, _ = env.reset(options={"handover": envs.episode[i]})
            np.testing.assert_array_equal(seen[i], last)


def test_points_without_a_hand_over_are_said() -> None:
    forever = SimJob(job_id=1, submit=0, nodes=2, time_limit_s=10**9, run_s=10**9)
    settings = PairSettings(nodes=1, time_limit_s=3600, every_s=100, since=100, until=300)
    with pytest.raises(InputError, match="does not start"):
        collect_start_states(Params(nodes=2), [forever], settings)
    with pytest.raises(InputError, match="does not fit"):
        collect_start_states(Params(nodes=2), [forever], replace(settings, nodes=3))


def test_a_predecessor_that_loses_its_node_is_left_out() -> None:
    lost = NodeEvent(at=2000, node=0, outage=Outage.DOWN)
    settings = PairSettings(nodes=1, time_limit_s=3600, every_s=4000, since=1000, until=6000)
    starts = collect_start_states(Params(nodes=2, node_events=(lost,)), [], settings)
    assert starts.skipped == {"the predecessor does not run to its limit": (1000,)}
    assert [s.world.start for s in starts.found] == [5000]


def test_a_library_forks_and_never_moves_its_starts() -> None:
    library = scene.library()
    before = [s.world.sim.now for s in library.starts]
    for handover in range(len(library)):
        outcome(ChainEnv(library), handover, [PositionAction.HELD])
    assert [s.world.sim.now for s in library.starts] == before


@REGIMES
def test_simulators_one_by_one_and_states_together_go_alike(accrue_always: bool) -> None:
    """The compiled batch against the public moves of `Simulator`, positions at random."""
    library = scene.library(accrue_always)
    size = len(library)
    one_by_one, together = (
        ForkBatch(library.starts, library.step_s, size),
        library.create_batch(size),
    )
    every = np.arange(size)
    for batch in (one_by_one, together):
        batch.begin_episodes(every, every)
    ends = 0
    for row in np.random.default_rng(0).choice(3, p=[0.6, 0.1, 0.3], size=(150, size)):
        ended = together.step(row)
        np.testing.assert_array_equal(ended, one_by_one.step(row))
        over = np.flatnonzero(ended)
        np.testing.assert_array_equal(together.outcome_h[over], one_by_one.outcome_h[over])
        np.testing.assert_array_equal(together.instant, one_by_one.instant)
        for batch in (one_by_one, together):
            batch.begin_episodes(over, over)
        ends += len(over)
    assert ends > size


def test_a_batch_makes_room_where_a_state_grows_too_small() -> None:
    """A burst far beyond what was pending when the predecessor started."""
    burst = [
        SimJob(job_id=i, submit=5000 + i, nodes=1, time_limit_s=600, run_s=300, user=str(i % 7))
        for i in range(1, 1500)
    ]
    settings = PairSettings(nodes=1, time_limit_s=7200, every_s=10, since=1000, until=1010)
    library = LiveLibrary(collect_start_states(Params(nodes=4), burst, settings))
    env = ChainEnv(library)
    assert library.describe_episode(0)["reactive_h"] > 1
    assert outcome(env, 0, [PositionAction.HELD])[0] == library.describe_episode(0)["reactive_h"]


@REGIMES
def test_the_small_observation_is_what_the_records_say(accrue_always: bool) -> None:
    library = scene.library(accrue_always)
    env = ChainEnv(library)
    for handover, start in enumerate(library.starts[:6]):
        world = start.world
        for free in (False, True):
            position = PositionAction.FREE if free else PositionAction.HELD
            env.reset(options={"handover": handover})
            seen, _, ended, _, _ = env.step(position)
            fork = world.sim.fork()
            if free:
                fork.set_dependencies(world.standby, ())
            fork.advance(world.start + 600)
            if not ended:
                expected = by_hand(fork, world, position)
                np.testing.assert_allclose(seen, expected, rtol=1e-6, atol=1e-7)


def by_hand(sim: Simulator, world: ReplayFork, position: PositionAction) -> list[float]:
    nodes, now, left = scene.NODES, sim.now, world.end - sim.now
    held = sim.find(world.standby)
    assert held is not None
    if held.eligible is None:
        sim.set_dependencies(world.standby, ())
    in_line = [r for r in sim.list_pending() if r.eligible is not None]
    place = [r.job_id for r in in_line].index(world.standby)
    work = [r.job.nodes * r.job.time_limit_s / 86400 / nodes for r in in_line]
    running = sim.list_running()
    freed = [
        sum(r.job.nodes for r in running if (r.start or 0) + r.job.time_limit_s - now <= h * 3600)
        for h in (1, 6, 24)
    ]
    angle = 2 * np.pi * (now % 86400) / 86400
    return [
        left / 86400,
        left / (world.end - world.start),
        *(
            float(position is p)
            for p in (PositionAction.HELD, PositionAction.FREE, PositionAction.PINNED)
        ),
        0.0 if position is PositionAction.HELD else (now - (held.eligible or 0)) / 86400,
        np.sin(angle),
        np.cos(angle),
        len(sim.list_free_nodes()) / nodes,
        np.log1p(len(running)),
        *(f / nodes for f in freed),
        np.log1p(len(in_line) - 1),
        np.log1p(sum(work) - work[place]),
        np.log1p(sum(work[:place])),
    ]
