"""A day of chains on a real Slurm with the service up in one hour of four, drawn at random.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.plans_day [--hours 24] [--seed 1]

The cluster's day takes 24 minutes. The service runs in mode `act` and is killed (kill -9) at the
end of each of its hours; bob's jobs keep the cluster full. Half of the chains are submitted while
the service is up, and so registered. Exit code 1: a chain was lost, two
standbys of a link waited at once, a link started early beyond its bound, or two links wrote
at once.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.plans_scene import HOUR, open_scene
from benchmarks.plans_watch import ChainSpec, Watch, let_pass, summarize
from tests.support.handover.scene import Scene

UP_SHARE = 4  # one hour of so many
WARM_UP_S = 2 * HOUR
CHAINS = (
    ChainSpec(name="sequential", style="sequential", limit_min=60, links=60),
    ChainSpec(name="longer", style="sequential", limit_min=120, links=40),
    ChainSpec(name="short-end", style="sequential", limit_min=40, links=8),
    ChainSpec(name="concurrent", style="concurrent", limit_min=60, links=60),
    ChainSpec(
        name="never",
        style="sequential",
        limit_min=60,
        links=60,
        options=("--mirage-never-overlap",),
        max_overlap_s=0,
    ),
    ChainSpec(
        name="presubmitted",
        style="sequential",
        limit_min=60,
        links=40,
        options=("--mirage-presubmit=all",),
    ),
)


def draw_hours(hours: int, seed: int) -> list[int]:
    """Draw the hours in which the service is up: one in four, at least one."""
    hours_up = random.Random(seed).sample(range(hours), max(1, hours // UP_SHARE))  # noqa: S311
    return sorted(hours_up)


def live_through(scene: Scene, watch: Watch, hours_up: Sequence[int], hours: int) -> None:
    """Let the hours pass; the service runs in those of `hours_up`."""
    began = scene.testbed.now()
    for hour in range(hours):
        if hour in hours_up:
            scene.launch_service()
        let_pass(scene, watch, began + (hour + 1) * HOUR - scene.testbed.now())
        scene.stop_service(signal.SIGKILL)


def measure(hours: int, seed: int, evidence: Path | None) -> list[str]:
    """Return the offences of such a day; prints what happened."""
    hours_up = draw_hours(hours, seed)
    print(f"seed {seed}: the service is up in the hours {hours_up} of {hours}", flush=True)
    with open_scene() as scene:
        scene.start_service()  # makes the database
        scene.fill(backlog=8, gpus=4, run_s=(HOUR // 2, 3 * HOUR // 2))
        scene.testbed.wait_until(lambda: scene.count_submitted() > 16, WARM_UP_S, "bob's jobs")
        watch = Watch(scene, {})
        let_pass(scene, watch, WARM_UP_S)
        watch.chains = {spec.submit(scene): spec for spec in CHAINS[::2]}
        scene.stop_service(signal.SIGKILL)
        watch.chains |= {spec.submit(scene): spec for spec in CHAINS[1::2]}
        live_through(scene, watch, hours_up, hours)
        offences, records = watch.find_offences(evidence)
        print("\n".join(summarize(records, watch.chains)))
        print(f"{watch.looks} looks at the queue; {scene.count_submitted()} jobs of bob's")
        events = Counter(event for event, _, _ in scene.audit())
        counts = ", ".join(f"{event} {count}" for event, count in sorted(events.items()))
        print(f"the service's audit: {counts}")
    return offences


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evidence", type=Path, help="where chains and service leave their files")
    options = parser.parse_args(words)
    offences = measure(options.hours, options.seed, options.evidence)
    print("\n".join(offences) or "no offence")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
