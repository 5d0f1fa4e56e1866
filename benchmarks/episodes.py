"""How many whole episode tables a second one core makes: every instant, forks, observations.

`python -m benchmarks.episodes [--count 24] [--nodes 1]`: Lonestar6's developers'
trace, 48 h pairs, 289 instants, start points spread evenly from 7 November 2022 to 24 February
2023, so that light and heavy weeks count alike. The replay up to the first start point and between
them is part of the time; reading the trace and compiling are not.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads.replay import load_workload
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.builder import EpisodeBuilder, describe_table
from mirage.simulator.types import Params, SimJob

SHARED = Path(__file__).resolve().parents[2] / "shared"
_HOUR_S, _DAY_S = 3600, 86400
_SINCE = int(datetime(2022, 11, 7, tzinfo=UTC).timestamp())
_UNTIL = int(datetime(2023, 2, 24, tzinfo=UTC).timestamp())


def spread_start_points(count: int, nodes: int) -> PairSettings:
    """Build settings with `count` start points, evenly over the trace."""
    every_s = (_UNTIL - _SINCE) // count // _HOUR_S * _HOUR_S
    return PairSettings(
        nodes=nodes,
        time_limit_s=48 * _HOUR_S,
        every_s=every_s,
        since=_SINCE,
        until=_SINCE + every_s * count,
    )


def warm_up(params: Params, jobs: Sequence[SimJob]) -> None:
    """Compile, or load what is compiled: a short pair early in the trace."""
    settings = PairSettings(
        nodes=1, time_limit_s=_HOUR_S, every_s=_DAY_S, since=_SINCE, until=_SINCE + _DAY_S
    )
    EpisodeBuilder(params, jobs[:4000], settings).build_table(
        settings.start_points, describe_table(params, settings)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"episodes: the traces are not there: {SHARED}")
    params = load_cluster_params(SHARED / "clusters/ls6.toml")
    jobs = load_workload(SHARED / "traces/tacc-ls6-a100.parquet", params).jobs
    warm_up(params, jobs)
    settings = spread_start_points(options.count, options.nodes)
    builder = EpisodeBuilder(params, jobs, settings)
    began, cpu = time.perf_counter(), time.process_time()
    table = builder.build_table(settings.start_points, describe_table(params, settings))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    print(
        json.dumps(
            {
                "tables": len(table),
                "instants": int(table.outcome_s.size),
                "wall_s": round(wall_s, 3),
                "cpu_s": round(cpu_s, 3),
                "tables_per_s": round(len(table) / wall_s, 2),
                "tables_per_cpu_s": round(len(table) / cpu_s, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
