"""Explains in words what a limit on earning age means for one standby.

`mirage chain explain` shows the words.
"""

import numpy as np

from mirage.domain.job import Job
from mirage.domain.snapshot import Queue
from mirage.slurm.commands.accrual_limits import AccrueLimit, AccrueLimits, AccrueScope

_NOT_ELIGIBLE = frozenset({"Dependency", "BeginTime", "JobHeldUser", "JobHeldAdmin"})


def describe_accrual_limit(limits: AccrueLimits, standby: Job, queue: Queue) -> str:
    """Describe the tightest of the standby's limits on earning age; empty if it has none."""
    found = limits.iter_applicable(qos=standby.qos, account=standby.account, user=standby.user)
    left = [(limit.most - _count_competing_jobs(limit, standby, queue), limit) for limit in found]
    if not left:
        return ""
    room, limit = min(left, key=lambda pair: pair[0])
    if room > 0:
        return f"{limit.describe_limit()}: if more jobs wait, the standby stops earning age"
    return f"{limit.describe_limit()}, and others take them up: the standby earns no age"


def _count_competing_jobs(limit: AccrueLimit, standby: Job, queue: Queue) -> int:
    """Count the eligible, waiting jobs that share the limit with the standby."""
    counted = queue.pending_mask & (queue.job_id != standby.job_id)
    counted &= np.array([reason not in _NOT_ELIGIBLE for reason in queue.reason], dtype=bool)
    if limit.qos:
        counted &= queue.qos == limit.qos
    if limit.account or limit.scope is AccrueScope.ACCOUNT:
        counted &= np.isin(queue.account, sorted(limit.accounts or {standby.account}))
    if limit.scope is AccrueScope.USER:
        counted &= queue.user == standby.user
    return int(np.count_nonzero(counted))
