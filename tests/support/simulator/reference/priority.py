"""The order of the queue: fixed-point priority and fair tree (section 3)."""

import math
from dataclasses import dataclass, field

from mirage.simulator.types import Params, SimJob
from tests.support.simulator.reference.cluster import Entry, qos_of

Association = tuple[str, str]
"""Account and user."""


@dataclass
class Run:
    """A span in which a job charges `cpus` each second; `end` None: it runs."""

    association: Association
    cpus: int
    start: int
    end: int | None = None

    def charged(self, begin: int, end: int) -> int:
        last = end if self.end is None else min(self.end, end)
        return self.cpus * max(0, last - max(self.start, begin))


@dataclass
class FairTree:
    """Usage of every association and account, and the fair share of the last tick."""

    params: Params
    origin: int
    associations: set[Association] = field(default_factory=set)
    usage: dict[Association, float] = field(default_factory=dict)
    account_usage: dict[str, float] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    share: dict[Association, int] = field(default_factory=dict)
    last_tick: int = 0

    def __post_init__(self) -> None:
        self.last_tick = self.origin

    def add_association(self, job: SimJob) -> None:
        self.associations.add((job.account, job.user))

    def get_share(self, job: SimJob) -> int:
        """Return the job's fair-share term: the best one if no tick has seen its association."""
        best = self.params.priority_weight_fairshare << 24
        return self.share.get((job.account, job.user), best)

    def tick(self, t: int) -> None:
        if t - self.origin > 256 * self.params.priority_decay_half_life_s:
            worth = 2.0 ** ((self.origin - t) / self.params.priority_decay_half_life_s)
            self.usage = {association: value * worth for association, value in self.usage.items()}
            self.account_usage = {
                association: value * worth for association, value in self.account_usage.items()
            }
            self.origin = t
        growth = 2.0 ** ((t - self.origin) / self.params.priority_decay_half_life_s)
        charged = dict.fromkeys(self.associations, 0)
        for run in self.runs:
            charged[run.association] += run.charged(self.last_tick, t)
        for association in self.associations:
            self.usage[association] = (
                self.usage.get(association, 0.0) + charged[association] * growth
            )
        for account in {association[0] for association in self.associations}:
            total = sum(
                charged[association]
                for association in self.associations
                if association[0] == account
            )
            self.account_usage[account] = self.account_usage.get(account, 0.0) + total * growth
        self.last_tick = t
        self.share = {association: self._share_of(association) for association in self.associations}

    def _share_of(self, association: Association) -> int:
        ahead = sum(self._levels(other) > self._levels(association) for other in self.associations)
        best = self.params.priority_weight_fairshare << 24
        return best * (len(self.associations) - ahead) // len(self.associations)

    def _levels(self, association: Association) -> tuple[float, float]:
        """Return the account's level and the association's own; tuples compare as the rule says."""
        shares = dict(self.params.shares).get(association[0], 1)
        return (
            _level(shares, self.account_usage[association[0]]),
            _level(1, self.usage[association]),
        )


def _level(shares: int, usage: float) -> float:
    return shares / usage if usage > 0 else math.inf


def static(params: Params, entry: Entry) -> int:
    """The part of a job's priority that does not change."""
    if entry.given_static is not None:
        return entry.given_static
    n = params.nodes
    size = n - entry.job.nodes if params.priority_favor_small else entry.job.nodes
    largest_factor = max(p.priority_job_factor for p in params.partitions)
    largest_qos = max(q.priority for q in qos_of(params))
    value = (params.priority_weight_job_size << 24) * size // n
    if largest_factor:
        weight = params.priority_weight_partition << 24
        value += weight * entry.partition.priority_job_factor // largest_factor
    if largest_qos:
        value += (params.priority_weight_qos << 24) * entry.qos.priority // largest_qos
    return value - (entry.job.nice << 24)


def age_term(params: Params, entry: Entry, t: int) -> int:
    since = entry.submit if params.accrue_always else entry.eligible
    assert since is not None
    rate = (params.priority_weight_age << 24) // params.priority_max_age_s
    return rate * min(params.priority_max_age_s, t - since)


def priority(params: Params, tree: FairTree, entry: Entry, t: int) -> int:
    return static(params, entry) + tree.get_share(entry.job) + age_term(params, entry, t)


def in_order(params: Params, tree: FairTree, waiting: list[Entry], t: int) -> list[Entry]:
    """Eligible jobs as both passes go through them."""

    def key(e: Entry) -> tuple[int, int, int]:
        return (-e.partition.priority_tier, -priority(params, tree, e, t), e.job_id)

    return sorted(waiting, key=key)
