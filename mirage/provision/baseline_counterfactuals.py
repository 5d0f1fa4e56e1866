"""Records when the simple rules, or a Mirage that does not act, would have freed a standby.

The rules are asked in the same ticks, on the same view. Until its time has come, a rule's instant
is what the rule now expects: its own lead before the predecessor's end. Then the instant stands. So
it is also known if Mirage has freed the standby before. What the hand-over would have come to is
worked out once it is over (`services.reports.handover_outcomes`).
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
NAMES = (_AVERAGE.name, _FIXED.name, SLURM)

CHANGED_S = 600
"""An expected instant is stored anew if it moves by more than this many seconds."""

WouldFree = tuple[ChainId, int, str, int]


class BaselineCounterfactuals:
    """The rules of one tick. A lead is the same for all of a partition, size and price."""

    def __init__(self, tx: Transaction, links: Sequence[LinkKey]) -> None:
        self._known = handover_outcomes.list_would_free(tx, links)
        self._leads: dict[tuple[str, int, float], Mapping[str, float]] = {}
        self.found: list[WouldFree] = []
        """New rows: chain, the standby's index, policy, instant."""

    def ask_rules(self, handover: OpenHandover, view: PolicyView) -> None:
        """Ask each rule when it would free the standby; what is new is added to `found`."""
        for policy, lead_s in self._get_leads(view).items():
            self._record_free_at(handover, policy, view.predecessor_end - round(lead_s), view.now)

    def record_free_now(self, handover: OpenHandover, policy: str, now: int) -> None:
        """Record that the policy would free the standby now, unless it already would have."""
        self._record_free_at(handover, policy, now, now)

    def get_slurm_wait_s(self, handover: OpenHandover) -> float | None:
        """Return the wait by Slurm's own plan, in seconds; None if no rule was asked this tick."""
        standby = handover.standby
        like = (standby.partition, standby.nodes, handover.chain.overlap_price)
        return self._leads.get(like, {}).get(SLURM)

    def _record_free_at(self, handover: OpenHandover, policy: str, at: int, now: int) -> None:
        key = (handover.chain.chain_id, handover.standby.index)
        known = self._known.get(key, {}).get(policy)
        if known is not None and known < (handover.predecessor.start or 0):
            known = None  # of a run before it was requeued
        if known is not None and known <= now:
            return
        at = max(at, now)
        if known is None or at == now or abs(at - known) > CHANGED_S:
            self.found.append((*key, policy, at))

    def _get_leads(self, view: PolicyView) -> Mapping[str, float]:
        like = (view.partition, view.nodes, view.overlap_price)
        if like not in self._leads:
            self._leads[like] = compute_leads_s(view)
        return self._leads[like]


def compute_leads_s(view: PolicyView) -> dict[str, float]:
    """Return the lead of each rule that frees the standby, in seconds."""
    found: dict[str, float] = {}
    for rule in (_AVERAGE, _SLURM):
        forecast = rule.decide(view).forecast
        if forecast is not None:
            found[rule.name] = forecast.p50_s
    fixed = _FIXED.find_lead_s(view)
    return found if fixed is None else found | {_FIXED.name: fixed}
