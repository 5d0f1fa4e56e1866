"""A learned position policy beside the rule `pin`: PPO on the live environment, three positions.

`python -m benchmarks.positions_learned [--regime "fair share, heaviest user"] [--nodes 8] [--steps
1000000] [--seed 0] [--json]`: Lonestar6's training weeks in the regimes of `benchmarks.positions`.
PPO (Stable-Baselines3) learns on the hand-overs of the first two thirds of the start points; judged
are those of the last third that begin when all of the former have ended. Each is moved every ten
minutes, held, pinned or free; terminal reward -(interruption + 0.5 overlap). Beside it the same
position throughout: held is plain Slurm, pinned the rule `pin`. Cost and its difference from `pin`
in hours, with 95 % intervals over days.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO

from benchmarks.positions_regimes import HOUR_S, LIMIT_S, REGIMES, SHARED, SINCE, UNTIL, Site
from mirage.domain.handover import OVERLAP_PRICE
from mirage.episodes.judge.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.episodes.table.pair_settings import PairSettings
from mirage.learn.environment.chain_env import ChainVectorEnv
from mirage.learn.environment.live_library import LiveLibrary
from mirage.learn.environment.protocols import PositionAction
from mirage.learn.environment.sb3_vec_env import ChainVecEnv
from mirage.learn.environment.start_states import StartStates, collect_start_states

Floats = NDArray[np.float64]
Act = Callable[[NDArray[np.float32]], NDArray[np.int64]]
EVERY_H, ENVS, REWARD_UNIT_H = 6, 64, 10.0
PINNED, HELD, LEARNED = "pin", "reactive", "ppo"


def begun(regime: str, nodes: int) -> tuple[StartStates, StartStates]:
    """Hand-overs to learn from, and those to judge on."""
    site = Site.of(next(r for r in REGIMES if r.name == regime))
    settings = PairSettings(
        nodes=nodes,
        time_limit_s=LIMIT_S,
        every_s=EVERY_H * HOUR_S,
        since=SINCE,
        until=UNTIL,
        user=site.user,
    )
    starts = collect_start_states(site.params, site.jobs, settings)
    cut = 2 * len(starts.found) // 3
    known = max(max(s.world.end, s.reactive_start) for s in starts.found[:cut])
    later = tuple(s for s in starts.found[cut:] if s.world.start >= known)
    if not later:
        sys.exit("positions_learned: no hand-over begins after those learned from have ended")
    return replace(starts, found=starts.found[:cut]), replace(starts, found=later)


def learned(starts: StartStates, steps: int, seed: int) -> Act:
    torch.set_num_threads(1)
    envs = ChainVecEnv(ChainVectorEnv(LiveLibrary(starts), ENVS), REWARD_UNIT_H)
    agent = PPO(
        "MlpPolicy",
        envs,
        n_steps=256,
        batch_size=4096,
        n_epochs=5,
        gamma=1.0,
        gae_lambda=0.95,
        ent_coef=0.003,
        seed=seed,
        device="cpu",
    )
    agent.learn(steps)

    def act(seen: NDArray[np.float32]) -> NDArray[np.int64]:
        chosen: NDArray[np.int64] = np.asarray(agent.predict(seen, deterministic=True)[0])
        return chosen

    return act


def outcomes_h(starts: StartStates, act: Act) -> Floats:
    """[E]: start of the successor - end of the predecessor, hours, of each hand-over."""
    library = LiveLibrary(starts)
    envs = ChainVectorEnv(library, len(library))
    seen, _ = envs.reset(options={"handover": np.arange(len(library))})
    found = np.full(len(library), np.nan)
    while np.isnan(found).any():
        seen, _, ended, _, told = envs.step(act(seen))
        for i in np.flatnonzero(ended):
            # Whoever has ended begins another one, which is not looked at.
            if np.isnan(found[i]):
                found[i] = told["final_info"]["outcome_h"][i]
    return found


def always(position: PositionAction) -> Act:
    return lambda seen: np.full(len(seen), int(position), dtype=np.int64)


def measured(regime: str, nodes: int, steps: int, seed: int) -> dict[str, Any]:
    first, later = begun(regime, nodes)
    acts = {
        HELD: always(PositionAction.HELD),
        PINNED: always(PositionAction.PINNED),
        LEARNED: learned(first, steps, seed),
    }
    cost_h = {}
    for name, act in acts.items():
        x_h = outcomes_h(later, act)
        cost_h[name] = np.maximum(x_h, 0.0) + OVERLAP_PRICE * np.maximum(-x_h, 0.0)
    counts = draw_day_counts(np.array([s.world.start for s in later.found], dtype=np.int64))
    more = cost_h[LEARNED] - cost_h[PINNED]
    return {
        "regime": regime,
        "nodes": nodes,
        "learned_from": len(first.found),
        "judged": len(later.found),
        "cost_h": {name: float(hours.mean()) for name, hours in cost_h.items()},
        "ppo_less_pin_h": float(more.mean()),
        "ppo_less_pin_h_ci": compute_interval(compute_means(counts, more)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [regime.name for regime in REGIMES]
    parser.add_argument("--regime", choices=names, default="fair share, heaviest user")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"positions_learned: the traces are not there: {SHARED}")
    told = measured(words.regime, words.nodes, words.steps, words.seed)
    if words.json:
        print(json.dumps(told))
        return
    costs = ", ".join(f"{name} {hours:.2f}" for name, hours in told["cost_h"].items())
    low, high = told["ppo_less_pin_h_ci"]
    print(
        f"{told['regime']}, {told['nodes']} node(s), {told['judged']} hand-overs: cost h {costs}; "
        f"ppo less pin {told['ppo_less_pin_h']:+.2f} [{low:.2f}, {high:.2f}]"
    )


if __name__ == "__main__":
    main()
