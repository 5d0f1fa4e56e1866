"""Answers a running link of mode submit that asks whether to submit its successor now.

The link asks now and then. The answer was decided in a provision tick like every other move, so a
question decides nothing and sends nothing to Slurm. Whatever the answers were, a link submits its
successor before it ends, so no chain depends on the service.
"""

from typing import NamedTuple

from mirage.chains.open_handovers import find_unsubmitted
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import Effect
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainMode, ChainState
from mirage.domain.decision import Action
from mirage.errors import IllegalTransition

SHARE = 20
"""A link asks again after 1/SHARE of its remaining time, so it is late by at most that."""
MOST_S = 600
"""The most seconds between two questions."""


class SubmitInstruction(NamedTuple):
    """Answers a link: whether to submit the successor now, and after how many seconds to ask
    again."""

    submit_now: bool
    ask_again_s: int


def get_submit_instruction(
    tx: Transaction, cluster_id: int, chain: Chain, now: int, tick_s: int
) -> SubmitInstruction:
    """Return the answer for the chain's running link.

    `tick_s` is the seconds between two decisions. Raises IllegalTransition for a chain of mode
    standby.
    """
    if chain.mode is not ChainMode.SUBMIT:
        raise IllegalTransition(
            f"chain {chain.chain_id} has mode {chain.mode}: its next link already waits in Slurm's "
            "queue, so there is nothing to submit"
        )
    handover = find_unsubmitted(chain, chains.list_links(tx, cluster_id, chain.chain_id))
    if chain.state is not ChainState.ACTIVE or handover is None:
        return SubmitInstruction(submit_now=False, ask_again_s=tick_s)
    last = decisions.find_last_decision(tx, cluster_id, chain.chain_id, handover.standby.index)
    if last is not None and last.action is Action.SUBMIT and last.effect is Effect.INTENDED:
        # An earlier release submitted links itself: the next look at the queue shows such a link.
        return SubmitInstruction(submit_now=last.submitted_at is None, ask_again_s=tick_s)
    end = handover.predecessor.get_planned_end()
    share_s = MOST_S if end is None else (end - now) // SHARE
    return SubmitInstruction(submit_now=False, ask_again_s=max(tick_s, min(MOST_S, share_s)))
