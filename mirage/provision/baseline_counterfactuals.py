"""Records when the simple rules, or a Mirage that does not act, would have freed a standby.

The rules are asked in the same ticks, on the same view. A rule's instant is its lead before the
predecessor's end, and changes with each tick until it has come; then it stays. So the instant is
known too if Mirage frees the standby before. After the hand-over, `reports.handover_outcomes`
computes the interruption or overlap that each rule would have had.
"""

from collections.abc import Mapping, Sequence

from mirage.chains.open_handovers import OpenHandover
from mirage.database.chains import handover_outcomes
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey
from mirage.domain.chain import ChainId
from mirage.domain.decision import PolicyView
from mirage.policies.rules.lead_rules import Average, FixedLead, SlurmEstimate

_AVERAGE, _FIXED, _SLURM = Average(), FixedLead(), SlurmEstimate()
SLURM = _SLURM.name
BASELINES = (_AVERAGE.name, _FIXED.name, SLURM)

CHANGED_S = 600
"""An expected instant is stored anew if it moves by more than this many seconds."""

WouldFree = tuple[ChainId, int, str, int]


class BaselineCounterfactuals:
    """The rules of one tick. A lead is the same for all standbys of a partition, size and price."""

    def __init__(self, tx: Transaction, links: Sequence[LinkKey]) -> None:
        self._stored = handover_outcomes.list_would_free(tx, links)
        self._leads: dict[tuple[str, int, float], Mapping[str, float]] = {}
        self.would_free: list[WouldFree] = []
        """New rows: chain, the standby's index, policy, instant."""

    def ask_rules(self, handover: OpenHandover, view: PolicyView) -> None:
        """Ask each rule when it would free the standby; new instants are added to `would_free`."""
        for policy, lead_s in self._get_leads(view).items():
            self._record_free_at(handover, policy, view.predecessor_end - round(lead_s), view.now)

    def record_free_now(self, handover: OpenHandover, policy: str, now: int) -> None:
        """Record that the policy would free the standby now, unless it already would have."""
        self._record_free_at(handover, policy, now, now)

    def get_slurm_wait_s(self, handover: OpenHandover) -> float | None:
        """Return the wait by Slurm's own plan, in seconds; None if no rule was asked this tick."""
        standby = handover.standby
        key = (standby.partition, standby.nodes, handover.chain.overlap_price)
        return self._leads.get(key, {}).get(SLURM)

    def _record_free_at(self, handover: OpenHandover, policy: str, at: int, now: int) -> None:
        key = (handover.chain.chain_id, handover.standby.index)
        stored_at = self._stored.get(key, {}).get(policy)
        if stored_at is not None and stored_at < (handover.predecessor.start or 0):
            stored_at = None  # the predecessor was requeued since: this instant is of its first run
        if stored_at is not None and stored_at <= now:
            return
        at = max(at, now)
        if stored_at is None or at == now or abs(at - stored_at) > CHANGED_S:
            self.would_free.append((*key, policy, at))

    def _get_leads(self, view: PolicyView) -> Mapping[str, float]:
        key = (view.partition, view.nodes, view.overlap_price)
        if key not in self._leads:
            self._leads[key] = compute_leads_s(view)
        return self._leads[key]


def compute_leads_s(view: PolicyView) -> dict[str, float]:
    """Return the lead of each rule that frees the standby, in seconds."""
    leads_s: dict[str, float] = {}
    for rule in (_AVERAGE, _SLURM):
        forecast = rule.decide(view).forecast
        if forecast is not None:
            leads_s[rule.name] = forecast.p50_s
    fixed_s = _FIXED.find_lead_s(view)
    return leads_s if fixed_s is None else leads_s | {_FIXED.name: fixed_s}
