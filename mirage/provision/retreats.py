"""Puts standbys back where Mirage does not act any more, from what the database knows.

A tick does this with the whole queue (`DecisionContext.decide_retreat`). Where that does not read,
Slurm is asked about these standbys and their predecessors alone.
"""

from mirage.chains.open_handovers import OpenHandover, list_open_handovers
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import ChainState
from mirage.domain.decision import Mode
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Snapshot
from mirage.provision.decision_context import DecisionContext, Rules
from mirage.provision.preconditions import is_left_behind
from mirage.provision.provision_tick import execute_moves, record_decisions


def list_retreats(tx: Transaction, cluster_id: int) -> list[OpenHandover]:
    """List the hand-overs whose standby is to be put back, as the mode there is no longer act."""
    modes = read_modes(tx, cluster_id)
    left = filter(
        is_left_behind,
        list_open_handovers(tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED),
    )
    return [
        one
        for one in left
        if modes.get_chain_mode(one.chain, one.standby.partition, one.standby.nodes) is not Mode.ACT
    ]


def retreat_handovers(
    store: Store, cluster: Cluster, cluster_id: int, snapshot: Snapshot, rules: Rules
) -> None:
    """Put those of these standbys back whose link was seen in the snapshot, with its owner and
    mark. It needs to show no other jobs than theirs."""
    at = snapshot.queue.taken_at
    with store.read() as tx:
        open_ones = [one for one in list_retreats(tx, cluster_id) if one.standby.seen_at == at]
        context = DecisionContext(tx, cluster_id, snapshot, rules, open_ones)
        undone = ((one, context.decide_retreat(one)) for one in open_ones)
        made = [(one, context.build_record(one, each, Mode.ACT)) for one, each in undone if each]
    with store.begin() as tx:
        planned = list(record_decisions(tx, cluster_id, made, context.foregone))
    execute_moves(store, cluster, cluster_id, snapshot, planned)
