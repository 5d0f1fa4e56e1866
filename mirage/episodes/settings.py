"""Which pairs are asked about, and when."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.episodes.table import STEP_S
from mirage.errors import InputError
from mirage.sim.types import Params, SelectType, SimJob

PAIR_USER = "mirage-pair"
"""The pair's own user: no limit per user couples it to the trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which pairs, and when. Instants are epoch seconds."""

    nodes: int
    time_limit_s: int
    every_s: int
    since: int
    until: int
    """Start points lie in [since, until)."""
    step_s: int = STEP_S

    @property
    def start_points(self) -> range:
        return range(self.since, self.until, self.every_s)

    @property
    def instant_s(self) -> NDArray[np.int32]:
        """Decision instants, seconds after the predecessor's start: each step, and its end."""
        steps = np.arange(0, self.time_limit_s, self.step_s)
        return np.append(steps, self.time_limit_s).astype(np.int32)

    def check(self, params: Params) -> None:
        """InputError where no such pair can be."""
        if not 1 <= self.nodes <= params.nodes:
            raise InputError(
                f"a pair of {self.nodes} nodes does not fit a cluster of {params.nodes}"
            )
        if self.time_limit_s < 1 or self.every_s < 1:
            raise InputError("the time limit and the distance of start points are at least 1 s")
        if self.since >= self.until:
            raise InputError("there is no start point: the first must lie before the end")


def pair_job(params: Params, settings: Settings) -> SimJob:
    """Either job of the pair: whole nodes, and it runs to its limit."""
    shared = params.select_type is not SelectType.LINEAR
    groups = params.node_groups
    cpus = min(g.cpus for g in groups) if groups else params.cpus_per_node
    gpus = min(g.gpus for g in groups) if groups else params.gpus_per_node
    return SimJob(
        nodes=settings.nodes,
        cpus=cpus if shared else 0,
        gpus=gpus if shared else 0,
        time_limit_s=settings.time_limit_s,
        run_s=settings.time_limit_s,
        user=PAIR_USER,
    )
