"""Compares the log's own waits with those of its replay, partition by partition.

The report's figures come from the replay. Where that waits for other spans than the site's jobs
did, they say nothing of the site.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from mirage.domain.arrays import Flags
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.services.replay.simulation import build_simulator, run_to_log_end
from mirage.services.reports.recommendation import LogWaits
from mirage.sim.types import Params
from mirage.studies.shadow_report.handover_pairs import HandoverPair
from mirage.traces.calibration.fidelity import Window, mask_judged_jobs
from mirage.traces.workloads.asked_resources import get_partition
from mirage.traces.workloads.replay import Replay


def compare_waits(
    taken: Replay, params: Params, pairs: Iterable[HandoverPair]
) -> Mapping[str, LogWaits]:
    """Replay the log, and compare the mean waits of each of the pairs' partitions.

    A partition is left out if none of its jobs can be compared.
    """
    since: dict[str, int] = {}
    for pair in pairs:
        named, begin = pair.settings.partition, pair.settings.since
        since[named] = min(begin, since.get(named, begin))
    submit, sim = taken.workload.submit, build_simulator(taken, params)
    run_to_log_end(taken, sim)
    partitions = np.array([get_partition(job, params).name for job in taken.workload.jobs])
    found = {}
    for name, begin in since.items():
        window = Window(begin=begin, end=int(submit.max()) + 1)
        rows = mask_judged_jobs(submit, sim.start, taken.logged, window)
        rows &= (partitions == name) & _mask_prompt_jobs(taken)
        if rows.any():
            logged_s, replayed_s = (
                np.maximum(start[rows] - submit[rows], 0)
                for start in (taken.logged.start, sim.start)
            )
            found[name] = LogWaits(
                partition=name,
                jobs=int(rows.sum()),
                logged_h=float(logged_s.mean() / HOUR_S),
                replayed_h=float(replayed_s.mean() / HOUR_S),
            )
    return found


def _mask_prompt_jobs(taken: Replay) -> Flags:
    """The jobs that no dependency, hold or begin time kept waiting, as far as the log tells."""
    return taken.logged.eligible - taken.workload.submit <= MINUTE_S
