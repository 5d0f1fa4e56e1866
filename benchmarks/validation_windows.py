"""What plain Slurm gives on each validation window of shared/clusters/README.md, by load class.

`python -m benchmarks.validation_windows [--window ls6-1 ...] [--json]`: the pair's successor
becomes eligible when its predecessor ends. No table is made: one fork a start point.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.episodes.generation.replay import TraceReplay
from mirage.episodes.judge.evaluation import CLASSES, build_class_masks
from mirage.episodes.table.pair_settings import PairSettings
from mirage.traces.cluster_files.reader import load_cluster_params
from mirage.traces.workloads.replay import load_workload

SHARED = Path(__file__).resolve().parents[2] / "shared"
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Window:
    """One row of the table in shared/clusters/README.md, for one width of the pair."""

    trace: str
    cluster: str
    nodes: int
    hours: int
    every_h: int
    since: str
    until: str

    @property
    def settings(self) -> PairSettings:
        return PairSettings(
            nodes=self.nodes,
            time_limit_s=self.hours * _HOUR_S,
            every_s=self.every_h * _HOUR_S,
            since=_midnight(self.since),
            until=_midnight(self.until),
        )


def _midnight(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


_LS6 = ("tacc-ls6-a100.parquet", "ls6.toml")
_THETAGPU = ("alcf-thetagpu-2023.parquet", "thetagpu.toml")
_THETA = ("alcf-theta-2023.parquet", "theta.toml")
WINDOWS = {
    "ls6-1": Window(*_LS6, 1, 48, 4, "2023-02-13", "2023-02-24"),
    "ls6-8": Window(*_LS6, 8, 48, 4, "2023-02-13", "2023-02-24"),
    "thetagpu-1": Window(*_THETAGPU, 1, 12, 2, "2023-05-01", "2023-05-29"),
    "thetagpu-4": Window(*_THETAGPU, 4, 12, 2, "2023-05-01", "2023-05-29"),
    "theta-128": Window(*_THETA, 128, 24, 4, "2023-05-01", "2023-05-27"),
    "theta-512": Window(*_THETA, 512, 24, 4, "2023-05-01", "2023-05-27"),
}


def reactive_h(window: Window) -> NDArray[np.float64]:
    """Interruption of each pair of the window, hours."""
    params = load_cluster_params(SHARED / "clusters" / window.cluster)
    settings = window.settings
    jobs = load_workload(SHARED / "traces" / window.trace, params).jobs
    worlds = TraceReplay(params, jobs, settings)
    found = []
    for point in settings.start_points:
        world = worlds.fork_without_history(point)
        if world is None:
            continue
        start = world.sim.run_until_started(world.standby, world.at_most)
        if start is not None:
            found.append((start - world.end) / _HOUR_S)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--window", action="append", choices=list(WINDOWS))
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"validation_windows: the traces are not there: {SHARED}")
    told: dict[str, dict[str, Any]] = {}
    for name in words.window or WINDOWS:
        begun = time.perf_counter()
        hours = reactive_h(WINDOWS[name])
        told[name] = {"wall_s": round(time.perf_counter() - begun, 2), **by_class(hours)}
        if not words.json:
            print(_line(name, told[name]), flush=True)
    if words.json:
        print(json.dumps(told, indent=1))


def by_class(hours: NDArray[np.float64]) -> dict[str, dict[str, Any]]:
    """Episodes and mean interruption of each load class."""
    masks = build_class_masks(hours)
    return {
        load: {
            "episodes": int(masks[load].sum()),
            "interruption_h": float(hours[masks[load]].mean()) if masks[load].any() else None,
        }
        for load in CLASSES
    }


def _line(name: str, told: dict[str, Any]) -> str:
    parts = []
    for load in CLASSES:
        hours, episodes = told[load]["interruption_h"], told[load]["episodes"]
        parts.append(f"{load} {'-' if hours is None else f'{hours:.3f}'} ({episodes})")
    return f"{name:11} {'   '.join(parts)}   {told['wall_s']} s"


if __name__ == "__main__":
    main()
