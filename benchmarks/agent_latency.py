"""How long one decision of each kind of agent takes, in this process, on one thread.

`python -m benchmarks.agent_latency`: networks of the shipped settings that have learned nothing,
asked through `ModelPolicy` about a hand-over with a whole day behind it; milliseconds. With the
twin its answer is there already, as in the service.
"""

import argparse
import time
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import PolicyView, Waits
from mirage.domain.snapshot import Queue
from mirage.features import twin_features
from mirage.features.observation import spec
from mirage.learn import settings
from mirage.learn.agents import agent_export
from mirage.learn.agents.agent_training import AgentPlan
from mirage.learn.agents.networks import ENCODERS
from mirage.learn.agents.trajectories import WINDOW
from mirage.policy.models.artefact import Artefact
from mirage.policy.models.model_policy import ModelPolicy
from mirage.policy.models.onnx_session import ADVANTAGE


def served(plan: AgentPlan, *, twin: bool) -> ModelPolicy:
    features = len(spec.NAMES) + twin * len(twin_features.NAMES)
    told = {"unit": plan.unit, "prices": [0.1, 2.0], "window": WINDOW if plan.part else 0}
    seen = {"low": [-9.0] * features, "high": [9.0] * features}
    graph = agent_export.export_net(plan.create_net(features), plan.unit, plan.part)
    card = {ADVANTAGE: told, "seen": seen, "twin": twin_features.FINGERPRINT if twin else None}
    return ModelPolicy(Artefact(card, graph), "models/new/1")


def view(rng: np.random.Generator) -> PolicyView:
    window = rng.normal(size=(WINDOW, len(spec.NAMES))).astype(np.float32)
    none = np.zeros(0, dtype=np.int64)
    waits = Waits(start=none, wait_s=none, nodes=none, time_limit_s=none)
    return PolicyView(
        now=0,
        predecessor_end=3600,
        partition="batch",
        nodes=1,
        time_limit_s=3600,
        jobs=waits,
        handovers=waits,
        queue=Queue.from_jobs(0, ()),
        free_nodes=0,
        observation=window[-1],
        window=window,
        twin_s=np.arange(len(twin_features.LEVELS), dtype=np.int32) * 600,
    )


def times_ms(policy: ModelPolicy, shown: PolicyView, turns: int) -> NDArray[np.float64]:
    found = []
    for _ in range(turns):
        begun = time.perf_counter()
        policy.decide(shown)
        found.append(time.perf_counter() - begun)
    return 1000.0 * np.array(found)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1000)
    given = parser.parse_args(words)
    shown = view(np.random.default_rng(0))
    print(f"{'encoder':24} {'p50 ms':>8} {'p99 ms':>8}")
    for encoder, twin in product(ENCODERS, (False, True)):
        policy = served(AgentPlan("dqn", encoder, settings.load_defaults(), 0), twin=twin)
        policy.decide(shown)
        p50, p99 = np.percentile(times_ms(policy, shown, given.decisions), (50, 99))
        name = f"{encoder} with the twin" if twin else encoder
        print(f"{name:24} {p50:8.3f} {p99:8.3f}")


if __name__ == "__main__":
    main()
