"""Chains without standing jobs (mode submit): what the running link is told when it asks.

The link asks now and then whether it shall submit its successor. It was decided in a provision tick
like every other move; asking decides nothing and asks Slurm nothing. Whatever the answers were, a
link submits its successor behind itself before it ends: no chain hangs on the service.
"""

from typing import NamedTuple

from mirage.domain.chain import Chain, ChainMode, ChainState
from mirage.domain.decision import Action
from mirage.errors import IllegalTransition
from mirage.services.chains.open_handovers import find_unsubmitted
from mirage.store.chains import chains, decisions
from mirage.store.chains.decisions import Effect
from mirage.store.database.engine import Transaction

SHARE = 20
"""A link asks again after one part in so many of the time that it has left: it can be late by no
more than that."""
MOST_S = 600


class SubmitInstruction(NamedTuple):
    submit_now: bool
    ask_again_s: int


def get_submit_instruction(
    tx: Transaction, chain: Chain, now: int, tick_s: int
) -> SubmitInstruction:
    """`tick_s`: between two decisions. Raises IllegalTransition for a chain with standbys."""
    if chain.mode is not ChainMode.SUBMIT:
        raise IllegalTransition(
            f"chain {chain.chain_id} is of mode {chain.mode}: its successor stands in the queue"
        )
    wanted = find_unsubmitted(chain, chains.list_links(tx, chain.chain_id))
    if chain.state is not ChainState.ACTIVE or wanted is None:
        return SubmitInstruction(submit_now=False, ask_again_s=tick_s)
    last = decisions.find_last_decision(tx, chain.chain_id, wanted.standby.index)
    if last is not None and last.action is Action.SUBMIT and last.effect is Effect.INTENDED:
        # What the service has submitted by itself stands in the queue, not seen yet.
        return SubmitInstruction(submit_now=last.submitted_at is None, ask_again_s=tick_s)
    end = wanted.predecessor.get_planned_end()
    share = MOST_S if end is None else (end - now) // SHARE
    return SubmitInstruction(submit_now=False, ask_again_s=max(tick_s, min(MOST_S, share)))
