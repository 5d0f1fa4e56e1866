"""The queue at an instant as one link sees it: plain arrays, of a live cluster or a simulated one."""

from dataclasses import dataclass
from typing import Self

from mirage.domain.snapshot import Ints, Node, Queue
from mirage.features.link import Link
from mirage.features.memory import Users
from mirage.features.numbers import Pending, Running
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params

_FRACTION_BITS = 24
"""As docs/simulator.md section 3: priorities are compared as squeue prints them, rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Eligible and running jobs of the link's pool, and its nodes.

    The pool is the jobs of every partition that has nodes in common with the link's. Held and
    dependent jobs, and the successor itself, are left out.
    """

    now: int
    pending_id: Ints
    pending: Pending
    running_id: Ints
    running: Running
    running_users: Ints
    """The user of every running job of the cluster, int64[n]."""
    nodes_all: int
    nodes_up: int
    nodes_free: int
    """Up, and no job on them."""
    cpus_free_share: float
    gpus_free_share: float
    """0 where there are none."""
    max_jobs_pu: int
    """Running jobs per user; 0: no limit."""
    priority: int
    """The successor's, were it eligible now; fair share as the pending jobs of its user have it."""
    horizon_s: int

    @classmethod
    def of_queue(
        cls, queue: Queue, nodes: tuple[Node, ...], params: Params, link: Link, users: Users
    ) -> Self:
        """What a live Slurm shows, or a SimulatedCluster."""
        raise NotImplementedError

    @classmethod
    def of_simulator(cls, simulator: Simulator, link: Link, users: Users) -> Self:
        """The same from the simulator's columns."""
        raise NotImplementedError
