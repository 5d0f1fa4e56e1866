"""Puts standbys back behind their predecessors where Mirage's mode is no longer act.

A tick does this with the whole queue (`HandoverDecider.decide_retreat`). If the queue cannot be
read, Slurm is asked about these standbys and their predecessors alone.
"""

from mirage.chains.open_handovers import OpenHandover, list_open_handovers
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import ChainState
from mirage.domain.decision import Mode
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Snapshot
from mirage.provision.handover_decider import DecisionSettings, HandoverDecider
from mirage.provision.preconditions import is_left_behind
from mirage.provision.provision_tick import execute_moves, record_decisions


def list_retreats(tx: Transaction, cluster_id: int) -> list[OpenHandover]:
    """List the hand-overs whose standby is to be put back, as the mode there is no longer act."""
    modes = read_modes(tx, cluster_id)
    left_behind = filter(
        is_left_behind,
        list_open_handovers(tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED),
    )
    return [
        handover
        for handover in left_behind
        if modes.get_chain_mode(handover.chain, handover.standby.partition, handover.standby.nodes)
        is not Mode.ACT
    ]


def retreat_handovers(
    store: Store, cluster: Cluster, cluster_id: int, snapshot: Snapshot, settings: DecisionSettings
) -> None:
    """Put back the standbys of `list_retreats` that the snapshot shows with their owner and mark.

    The snapshot needs to show only these standbys and their predecessors.
    """
    at = snapshot.queue.taken_at
    with store.read() as tx:
        handovers = [h for h in list_retreats(tx, cluster_id) if h.standby.seen_at == at]
        decider = HandoverDecider(tx, cluster_id, snapshot, settings, handovers)
        retreats = ((h, decider.decide_retreat(h)) for h in handovers)
        decided = [(h, decider.build_record(h, move, Mode.ACT)) for h, move in retreats if move]
    with store.begin() as tx:
        moves = list(record_decisions(tx, cluster_id, decided, decider.baselines))
    execute_moves(store, cluster, cluster_id, snapshot, moves)
