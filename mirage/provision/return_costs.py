"""Keeps what a new release is expected to cost a link, for the link to decide by if it is early.

An early link of style sequential keeps its nodes or gives them back, within seconds of its start
(docs/decisions/0038-an-early-link-gives-back.md). No forecast is made in that time. So the last
decision before the release holds the costs, and the link asks for them. Where there are none, or
old ones, the link decides by its own last wait.
"""

from dataclasses import dataclass
from typing import Any

from mirage.chains.open_handovers import OpenHandover
from mirage.database.chains import chains, decisions
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainState, LinkState
from mirage.domain.decision import Action, Decision, Mode, PolicyView
from mirage.domain.handover import list_handovers
from mirage.policies.rules import release_cost
from mirage.policies.rules.release_cost import ReleaseCosts, ReturnCosts

COSTS = "return_costs"
"""The name of the costs among a decision's inputs."""
FRESH_S = release_cost.FRESH_S
"""Older costs are not served."""
_LEADS_TO_A_START = frozenset({Action.FREE, Action.PLAN, Action.WAIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCosts:
    """The costs of the last decision on link `index`, by the forecast of then."""

    index: int
    made_at: int
    price: float
    """The overlap price of the costs."""
    table: ReturnCosts


def count_returns_left(handover: OpenHandover, most: int) -> int:
    """Return how often the link may still give its nodes back, as far as the service knows, where
    an admin allows `most` times."""
    return max(0, handover.chain.count_allowed_returns(most) - handover.standby.returns)


def build_return_costs(
    handover: OpenHandover, decision: Decision, view: PolicyView
) -> dict[str, Any] | None:
    """Return the costs for the inputs of this decision; None where no early start may follow while
    they are fresh, or where no whole distribution of the wait is forecast."""
    waits_s = () if decision.forecast is None else decision.forecast.waits_s
    returns = view.returns
    if not waits_s or not returns or not _is_release_at_hand(handover, decision, view.now):
        return None
    table = ReleaseCosts(waits_s, view.overlap_price, returns).compute_return_costs(
        view.time_left_s
    )
    if not table.left_s:
        return None
    columns = {"left_s": table.left_s, "cost_s": table.cost_s, "lead_s": table.lead_s}
    return {"price": view.overlap_price} | {name: list(cells) for name, cells in columns.items()}


def _is_release_at_hand(handover: OpenHandover, decision: Decision, now: int) -> bool:
    """Return whether the standby is released now, or soon by a plan in Slurm."""
    if decision.action not in _LEADS_TO_A_START:
        return False
    is_new = decision.action is Action.PLAN
    planned = decision.release_at if is_new else handover.standby.get_standing_release()
    return decision.action is Action.FREE or (planned is not None and planned - now <= FRESH_S)


def find_kept_costs(
    tx: Transaction, cluster_id: int, chain: Chain, *, index: int, mode: Mode, now: int
) -> KeptCosts | None:
    """Return the costs that link `index` may decide by beside its running predecessor; None: there
    are none, or they are too old. `mode` holds for the link."""
    gives_back = chain.count_allowed_returns() > 0
    if mode is not Mode.ACT or chain.state is not ChainState.ACTIVE or not gives_back:
        return None
    pairs = list_handovers(chains.list_links(tx, cluster_id, chain.chain_id))
    predecessor = next((pair.predecessor for pair in pairs if pair.successor.index == index), None)
    row = decisions.find_last_decision(tx, cluster_id, chain.chain_id, index)
    if predecessor is None or predecessor.state is not LinkState.RUNNING or row is None:
        return None
    stored = row.inputs.get(COSTS)
    is_of_now = row.mode is Mode.ACT and row.inputs.get("predecessor") == predecessor.job_id
    made_at = row.last_at - row.inputs.get("twin_age_s", 0)
    if stored is None or not is_of_now or now - made_at > FRESH_S:
        return None
    table = ReturnCosts(*(tuple(stored[name]) for name in ("left_s", "cost_s", "lead_s")))
    return KeptCosts(index=index, made_at=made_at, price=stored["price"], table=table)
