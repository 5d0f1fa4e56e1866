"""Steps a CPU second of ChainEnv's two forms on one core: `python -m benchmarks.chain_env`.

Beside them, in the same run, Gymnasium's own vectorised CartPole and the single environment in a
plain loop. Tables hold random numbers (rows are looked up: what they hold does not matter); the
live form runs on the seeded synthetic workload, one-node links of 48 h. Two policies: `random`
draws every action alike, so episodes are short and beginnings count; `held` never moves the
standby, so episodes are as long as they get.
"""

import argparse
import json
import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from mirage.episodes.table.pair_settings import PairSettings
from mirage.learn.environment.chain_env import ChainEnv, ChainVectorEnv
from mirage.learn.environment.live_library import LiveLibrary, ObservationKind
from mirage.learn.environment.protocols import Library
from mirage.learn.environment.start_states import StartStates, collect_start_states
from mirage.learn.environment.table_library import TableLibrary
from mirage.sim.types import Params
from mirage.traces.workloads import synthetic

INSTANTS, FEATURES, EPISODES = 289, 115, 200
_HOUR_S, _DAY_S = 3600, 86400
_WARM_UP_DAYS, _START_DAYS = 21, 14


def tables() -> Library:
    rng = np.random.default_rng(0)
    return TableLibrary(
        (rng.normal(size=(INSTANTS, FEATURES)), rng.normal(scale=9, size=INSTANTS))
        for _ in range(EPISODES)
    )


def starts(preset: str) -> StartStates:
    first = synthetic.EPOCH + _WARM_UP_DAYS * _DAY_S
    settings = PairSettings(
        nodes=1,
        time_limit_s=48 * _HOUR_S,
        every_s=4 * _HOUR_S,
        since=first,
        until=first + _START_DAYS * _DAY_S,
    )
    jobs = synthetic.generate_workload(preset, days=_WARM_UP_DAYS + _START_DAYS + 14, seed=0)
    return collect_start_states(Params(), jobs, settings)


def vectored(envs: VectorEnv[Any, Any, Any], seconds: float, most: int) -> float:
    """Steps a second, all hand-overs counted, actions drawn beforehand from 0 to `most`."""
    envs.reset(seed=0)
    actions = np.random.default_rng(1).integers(most + 1, size=(64, envs.num_envs))
    envs.step(actions[0])
    calls, started = 0, time.process_time()
    while (passed := time.process_time() - started) < seconds:
        envs.step(actions[calls % len(actions)])
        calls += 1
    return calls * envs.num_envs / passed


def alone(env: ChainEnv, seconds: float) -> float:
    """The same of one environment, random actions."""
    env.reset(seed=0)
    actions = np.random.default_rng(1).integers(env.library.positions, size=4096)
    steps, started = 0, time.process_time()
    while (passed := time.process_time() - started) < seconds:
        if env.step(actions[steps % len(actions)])[2]:
            env.reset()
        steps += 1
    return steps / passed


def measured(envs: int, live_envs: int, seconds: float, preset: str) -> dict[str, float]:
    cart = gymnasium.make_vec("CartPole-v1", envs, vectorization_mode="vector_entry_point")
    told = {"CartPole-v1 (Gymnasium's vector form)": vectored(cart, seconds, 1)}
    found = starts(preset)
    forms = (("tables", tables(), envs), (f"live, {preset}", LiveLibrary(found), live_envs))
    for name, library, size in forms:
        many = ChainVectorEnv(library, size)
        told[f"{name}, random"] = vectored(many, seconds, library.positions - 1)
        told[f"{name}, held"] = vectored(many, seconds, 0)
        told[f"{name}, random, one alone"] = alone(ChainEnv(library), seconds)
    full = ChainEnv(LiveLibrary(found, ObservationKind.FULL))
    told[f"live, {preset}, full observation, one alone"] = alone(full, seconds)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=256, help="table hand-overs a call")
    parser.add_argument("--live-envs", type=int, default=32, help="live hand-overs a call")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure")
    parser.add_argument("--preset", default="medium", choices=sorted(synthetic.PRESETS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    told = measured(given.envs, given.live_envs, given.seconds, given.preset)
    if given.json:
        print(json.dumps({name: round(figure) for name, figure in told.items()}))
        return
    for name, figure in told.items():
        print(f"{name:46s} {figure:12,.0f} steps/s")


if __name__ == "__main__":
    main()
