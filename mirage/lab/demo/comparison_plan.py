"""The plan of a comparison of policies, and its defaults: chains, load, baseline."""

from dataclasses import dataclass

from mirage.domain.time_units import DAY_S, HOUR_S

BASELINE = "reactive"
WARM_UP_DAYS = 14
"""The queue of the heavy preset builds up in its first two weeks."""
PRESET = "heavy"
SEED = 1
PINNED_TICK_S = 1800
"""The tick of a demo in which `auto` pins: nothing is decided after that, and the rules' costs are
those of ticks of 600 s to 0.4 h. Where the twin decides, each tick moves the release: `auto` cost
2.11 h with ticks of 1,800 s, and 1.26 h with 600 s (docs/research/results.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """A plan of a comparison: which chains are submitted, and when.

    Times are in seconds of the simulated clock.
    """

    policies: tuple[str, ...]
    chains: int = 15
    """The number of chains of each policy. Chain i of every policy is submitted at the same
    instant."""
    links: int = 3
    nodes: int = 1
    time_limit_s: int = 2 * DAY_S
    spread_s: int = 17 * 3600
    """Seconds between two chains. It does not divide a day, so chains begin at all hours of the
    day."""
    tick_s: int = 600
    warm_up_days: int = WARM_UP_DAYS
    """The chains begin so many days into the load."""
    longest_s: int = 60 * DAY_S
    """The comparison stops after this many seconds, even if chains still run."""

    @property
    def room(self) -> int:
        """The nodes that the chains need beside the workload: those of all chains that run at
        the same time."""
        return min(self.chains, self._concurrent_chains) * len(self.policies) * self.nodes

    @property
    def _concurrent_chains(self) -> int:
        """The chains of one policy that would run side by side if no link waited."""
        return -(-self.links * self.time_limit_s // self.spread_s)

    @property
    def handovers(self) -> int:
        """Return the number of hand-overs of each policy."""
        return self.chains * (self.links - 1)


LEARNING = ComparisonPlan(
    policies=(BASELINE, "auto"),
    # Each is replayed and asked about by the twin when a model is judged.
    chains=2,
    # More than the time has room for: the chains of this site go on all the time.
    links=150,
    time_limit_s=12 * HOUR_S,
    # Each tick costs computing, and a release is planned to the minute between two.
    tick_s=1800,
    # So much accounting a service reads when it begins.
    warm_up_days=7,
    longest_s=51 * DAY_S,
)
"""The plan of a demo that learns. `auto` is with the models of the site that are in use."""
LEARNING_NODES = 16
"""A small cluster, so that eight weeks of it are replayed in minutes."""
