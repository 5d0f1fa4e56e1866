"""A service that is no Operator moves what it may, and leaves the rest to plain Slurm."""

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.callers.move_scope import EVERYBODY, MoveScope
from mirage.domain.decision import Action
from mirage.provision.handover_decider import DecisionSettings
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import WrittenCluster, find_last_decision, running, standby
from tests.unit.provision.test_moves import tick

COORDINATOR = MoveScope(accounts=frozenset({"research"}), uid=77)


def cluster_of(account: str) -> WrittenCluster:
    return WrittenCluster(running(1, account=account), standby(2, account=account))


@pytest.mark.parametrize("account", ["research", "Research"])
def test_a_coordinator_moves_the_chains_of_the_account(acting_store: Store, account: str) -> None:
    cluster = cluster_of(account)
    tick(
        acting_store,
        cluster,
        DecisionSettings(get_policy=Always, default_policy="always", reach=lambda: COORDINATOR),
    )
    assert cluster.moves == [("free", 12, "")]


@pytest.mark.parametrize("account", ["students", "", "research2"])
def test_another_accounts_chain_is_left_to_plain_slurm_and_that_is_told(
    acting_store: Store, account: str
) -> None:
    cluster = cluster_of(account)
    tick(
        acting_store,
        cluster,
        DecisionSettings(get_policy=Always, default_policy="always", reach=lambda: COORDINATOR),
    )
    assert cluster.moves == []
    row = find_last_decision(acting_store, 2)
    assert (row.action, row.policy) == (Action.WAIT, "guard")
    assert "may not move jobs" in row.reason
    assert "plain Slurm starts it when its predecessor ends" in row.reason
    assert "(research)" in row.reason


def test_rights_that_come_later_count(acting_store: Store) -> None:
    found = [MoveScope(uid=77)]
    settings = DecisionSettings(get_policy=Always, default_policy="always", reach=lambda: found[0])
    cluster = cluster_of("students")
    tick(acting_store, cluster, settings)
    assert cluster.moves == []
    found[0] = EVERYBODY
    cluster.at += 60
    tick(acting_store, cluster, settings)
    assert cluster.moves == [("free", 12, "")]
