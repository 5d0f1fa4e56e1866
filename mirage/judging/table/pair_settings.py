"""Chooses the pairs of jobs of an episode table, and the decision instants."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mirage.domain.timelimit import format_time_limit
from mirage.errors import InputError
from mirage.judging.table.metadata import STEP_S
from mirage.simulator.packing.packed_params import (
    get_max_time_s,
    list_node_groups,
    list_partition_nodes,
    list_qos,
)
from mirage.simulator.types import Params, Partition, Qos, SimJob

PAIR_USER = "mirage-pair"
"""The pair's own user, so that no limit per user links the pair to the trace."""

_JOBS_AT_ONCE = 2
"""The number of jobs of the pair that are in the queue at once: the standby is submitted with its
predecessor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSettings:
    """The choice of pairs and of their instants. Instants are epoch seconds."""

    nodes: int
    time_limit_s: int
    every_s: int
    since: int
    until: int
    """Start points lie in [since, until)."""
    step_s: int = STEP_S
    partition: str = ""
    """Empty: the default one."""
    qos: str = ""
    """Empty: the default one."""
    user: str = ""
    """Empty: PAIR_USER."""
    account: str = ""

    @property
    def start_points(self) -> range:
        return range(self.since, self.until, self.every_s)

    @property
    def instant_s(self) -> NDArray[np.int32]:
        """Decision instants, seconds after the predecessor's start: each step, and its end."""
        steps = np.arange(0, self.time_limit_s, self.step_s)
        return np.append(steps, self.time_limit_s).astype(np.int32)

    def check_feasible(self, params: Params) -> None:
        """Raise InputError if Slurm would refuse such a pair, or there is no start point."""
        fault = next(self._list_misfits(params), None)
        if fault:
            raise InputError(fault)
        if self.time_limit_s < 1 or self.every_s < 1:
            raise InputError(
                "the time limit and the time between start points must be at least 1 s"
            )
        if self.since >= self.until:
            raise InputError(
                "there is no start point: the first must be before the end of the window"
            )

    def _list_misfits(self, params: Params) -> Iterator[str]:
        """Explain why Slurm would refuse the pair, or never start it."""
        partition = _find_named("partition", self.partition, params.partitions)
        qos = _find_named("QOS", self.qos, list_qos(params))
        count = len(list_partition_nodes(params, partition))
        pair = f"a pair of {self.nodes} nodes does not fit"
        if not 1 <= self.nodes <= count:
            yield f"{pair} partition {partition.name} of {count}"
        if 0 < get_max_time_s(partition, qos) < self.time_limit_s:
            limit, longest = map(format_time_limit, (self.time_limit_s, partition.max_time_s))
            yield f"a time limit of {limit} is over MaxTime={longest} of partition {partition.name}"
        if 0 < qos.max_submit_pu < _JOBS_AT_ONCE:
            yield (
                f"QOS {qos.name} has MaxSubmitJobsPU={qos.max_submit_pu}, which leaves no room for "
                "a standby"
            )
        for tres, least, most_pu in _list_limits(params, partition, qos, self.nodes):
            if 0 < most_pu < least:
                yield f"{pair} QOS {qos.name}: MaxTRESPU {tres}={most_pu}, and a pair takes {least}"


def build_pair_job(settings: PairSettings) -> SimJob:
    """Build a job of the pair. It takes whole nodes and runs to its limit."""
    return SimJob(
        nodes=settings.nodes,
        exclusive=True,
        time_limit_s=settings.time_limit_s,
        run_s=settings.time_limit_s,
        user=settings.user or PAIR_USER,
        account=settings.account,
        partition=settings.partition,
        qos=settings.qos,
    )


def find_account(jobs: Iterable[SimJob], user: str) -> str:
    """Find the account of a user of the trace. Raises InputError if there is none, or more than
    one."""
    accounts = sorted({job.account for job in jobs if job.user == user})
    if not accounts:
        raise InputError(f"the trace has no job of user {user!r}")
    if len(accounts) > 1:
        raise InputError(f"user {user!r} has jobs in {', '.join(accounts)}: name the account")
    return accounts[0]


def check_account(jobs: Iterable[SimJob], user: str, account: str) -> None:
    """Raise InputError if the trace has no job of that account, or none of `user` in it if `user`
    is not empty."""
    if not any(job.account == account and user in ("", job.user) for job in jobs):
        of_user = f" of user {user!r}" if user else ""
        raise InputError(f"the trace has no job{of_user} in account {account!r}")


_Entry = TypeVar("_Entry", Partition, Qos)


def _find_named(kind: str, name: str, entries: Sequence[_Entry]) -> _Entry:
    """Find the entry of that name; the first one if the name is empty."""
    match = next((entry for entry in entries if name in ("", entry.name)), None)
    if match is None:
        names = ", ".join(entry.name for entry in entries)
        raise InputError(f"the cluster file has no {kind} {name!r}: choose one of {names}")
    return match


def _list_limits(
    params: Params, partition: Partition, qos: Qos, nodes: int
) -> Iterator[tuple[str, int, int]]:
    """Yield each resource with the sum over the smallest nodes and the QOS's limit for a user.

    The sum is over the partition's `nodes` smallest nodes.
    """
    groups = [g for g in list_node_groups(params) for _ in range(g.count)]
    in_partition = [groups[n] for n in list_partition_nodes(params, partition)]
    yield "node", nodes, qos.max_nodes_pu
    yield "cpu", sum(sorted(g.cpus for g in in_partition)[:nodes]), qos.max_cpus_pu
    yield "mem", sum(sorted(g.memory_mib for g in in_partition)[:nodes]), qos.max_memory_mib_pu
    yield "gres/gpu", sum(sorted(g.gpus for g in in_partition)[:nodes]), qos.max_gpus_pu
