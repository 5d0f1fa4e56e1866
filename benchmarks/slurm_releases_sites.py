"""The training weeks of `benchmarks.slurm_releases`, by cluster and variant: replays and tables."""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.leaderboard import PRICE, TRAINED, build_episode_words
from benchmarks.validation_windows import SHARED, WINDOWS, Window, reactive_h
from mirage.cli.ui.study_output import TERMINAL
from mirage.config.paths import get_data_dir
from mirage.sim.simulator import Simulator
from mirage.sim.slurm_release import SlurmRelease
from mirage.studies.evaluation.policy_evaluation import (
    Evaluation,
    EvaluationRequest,
    load_judged_table,
    run_evaluation,
)
from mirage.traces.cluster_files.reader import load_cluster_params
from mirage.traces.workloads.replay import load_workload

EVERY_H = {"ls6": 28, "thetagpu": 38, "theta": 59}
"""Hours between start points of tables. Never whole days, so that many hours of the day count."""
PLAIN_EVERY_H = {"ls6": 4, "thetagpu": 2, "theta": 28}
"""Hours between start points at which plain Slurm alone is asked."""
SPARSER = 2
"""The twin is asked at one of so many start points: it takes ten times as long."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Whose backfill plans, and how."""

    name: str
    release: SlurmRelease
    by_name: bool = True
    bf_interval_s: int = 30


BASE = "22.05"
VARIANTS = (
    Variant(BASE, SlurmRelease.V22_05),
    Variant("22.05, every 29 s", SlurmRelease.V22_05, bf_interval_s=29),
    Variant("24.11", SlurmRelease.V24_11),
    Variant("26.05", SlurmRelease.V26_05),
    Variant("22.05, by number", SlurmRelease.V22_05, by_name=False),
)
_WHOLE_NODES = """
[[partitions]]
PartitionName = "whole"
OverSubscribe = "EXCLUSIVE"
"""


@dataclass(frozen=True, slots=True)
class Site:
    """The training weeks of a cluster under one variant. Files are made in the folder."""

    folder: Path
    cluster: str
    variant: Variant

    @property
    def windows(self) -> list[str]:
        return [name for name in WINDOWS if name.rpartition("-")[0] == self.cluster]

    def replay(self) -> NDArray[np.int64]:
        """Return [2, J]: submission and start of the jobs submitted in these weeks.

        A job that was cancelled before it started has -1.
        """
        window = self._describe_window(self.windows[0], 1)
        params = load_cluster_params(Path(window.cluster))
        workload = load_workload(Path(window.trace), params)
        simulator = Simulator(params, workload)
        simulator.run_out()
        weeks = window.settings
        within = (weeks.since <= workload.submit) & (workload.submit < weeks.until)
        return np.stack([workload.submit, simulator.start])[:, within]

    def measure_plain(self) -> NDArray[np.float64]:
        """Return plain Slurm's interruption, hours, at the start points of both widths."""
        every_h = PLAIN_EVERY_H[self.cluster]
        windows = [
            replace(self._describe_window(name, 1), every_h=every_h) for name in self.windows
        ]
        return np.concatenate([reactive_h(window) for window in windows])

    def judge(self, names: Sequence[str], sparser: int = 1) -> Evaluation:
        """Ask policies over the hand-overs of each width. Makes the tables that are missing."""
        paths = [self._make_table(name, sparser) for name in self.windows]
        return run_evaluation(
            EvaluationRequest(
                paths=paths,
                tables=[load_judged_table(path, TERMINAL) for path in paths],
                names=("reactive", "oracle", *names),
                models=get_data_dir("models"),
                overlap_price=PRICE,
            ),
            TERMINAL,
        )

    def _make_table(self, name: str, sparser: int) -> Path:
        path = self.folder / f"{name}-{self._slug}{'-sparse' if sparser > 1 else ''}.npz"
        if not path.exists():
            window = self._describe_window(name, sparser)
            words = ["episodes", *build_episode_words(window, TRAINED[self.cluster])]
            words += ["--twin"] if sparser > 1 else []
            sys.stderr.write(f"mirage {' '.join(words)}\n")
            command = [sys.executable, "-m", "mirage", *words, "--out", str(path)]
            subprocess.run(command, stdout=sys.stderr, check=True)
        return path

    def _describe_window(self, name: str, sparser: int) -> Window:
        since, until = TRAINED[self.cluster]
        return replace(
            WINDOWS[name],
            trace=str(self._write_trace()),
            cluster=str(self._write_cluster_file()),
            every_h=EVERY_H[self.cluster] * sparser,
            since=since,
            until=until,
        )

    def _write_trace(self) -> Path:
        """Write the trace without the jobs submitted in the validation weeks or later."""
        window = WINDOWS[self.windows[0]]
        path = self.folder / window.trace
        if not path.exists():
            earlier = [("submit", "<", window.settings.since)]
            whole = SHARED / "traces" / window.trace
            pq.write_table(pq.read_table(whole, filters=earlier), path)
        return path

    def _write_cluster_file(self) -> Path:
        """Write the cluster's file as the variant has it."""
        told = (SHARED / "clusters" / WINDOWS[self.windows[0]].cluster).read_text()
        variant = self.variant
        lines = f'bf_interval = {variant.bf_interval_s}\nSLURM_VERSION = "{variant.release}"'
        if variant.by_name:
            lines += '\nSelectType = "select/cons_tres"'
            told += _WHOLE_NODES
        path = self.folder / f"{self.cluster}-{self._slug}.toml"
        path.write_text(re.sub(r"(?m)^bf_interval = .*$", lines, told))
        return path

    @property
    def _slug(self) -> str:
        return self.variant.name.replace(",", "").replace(" ", "-")
