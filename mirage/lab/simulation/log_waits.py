"""Compares how long jobs waited in a log with how long they wait in its replay."""

from collections.abc import Mapping

import numpy as np

from mirage.domain.arrays import Flags
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.history.workloads.asked_resources import get_partition
from mirage.history.workloads.replay import Replay
from mirage.lab.simulation.fidelity import Window, mask_judged_jobs
from mirage.lab.simulation.simulation import build_simulator, run_to_log_end
from mirage.reports.recommendation import LogWaits
from mirage.simulator.types import Params


def compare_waits(
    replay: Replay, params: Params, since: Mapping[str, int]
) -> Mapping[str, LogWaits]:
    """Replay the log, and compare the mean waits of each partition of `since`.

    `since` has the first submission that counts, by partition. What is made from the replay says
    nothing of the site where the replay waits for other spans than the site's jobs did. A partition
    is left out if none of its jobs can be compared.
    """
    submit, sim = replay.workload.submit, build_simulator(replay, params)
    run_to_log_end(replay, sim)
    partitions = np.array([get_partition(job, params).name for job in replay.workload.jobs])
    compared = {}
    for name, begin in since.items():
        window = Window(begin=begin, end=int(submit.max()) + 1)
        rows = mask_judged_jobs(submit, sim.start, replay.logged, window)
        rows &= (partitions == name) & _mask_prompt_jobs(replay)
        if rows.any():
            logged_s, replayed_s = (
                np.maximum(start[rows] - submit[rows], 0)
                for start in (replay.logged.start, sim.start)
            )
            compared[name] = LogWaits(
                partition=name,
                jobs=int(rows.sum()),
                logged_h=float(logged_s.mean() / HOUR_S),
                replayed_h=float(replayed_s.mean() / HOUR_S),
            )
    return compared


def _mask_prompt_jobs(replay: Replay) -> Flags:
    """The jobs that no dependency, hold or begin time kept waiting, as far as the log tells."""
    return replay.logged.eligible - replay.workload.submit <= MINUTE_S
