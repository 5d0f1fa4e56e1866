"""A service that is no Operator moves what it may, and leaves the rest to plain Slurm."""

import os
import pwd

import pytest
from structlog.testing import capture_logs

from mirage.database.schema.engine import Store
from mirage.domain.callers.move_scope import EVERYBODY, UNKNOWN, MoveScope
from mirage.domain.decision import Action
from mirage.provision.handover_decider import DecisionSettings
from mirage.slurm.commands.sacctmgr import Roster
from mirage.web.identity.authorization import NO_ROSTER
from mirage.web.identity.slurm_permissions import ReachReporter, compute_reach
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


def test_who_may_move_what_is_read_from_the_roster() -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    known = Roster(
        operators=frozenset({"op"}), coordinated={"co": frozenset({"b", "a"}), me: frozenset({"c"})}
    )
    assert (
        compute_reach("op", known)
        is compute_reach("root", known)
        is compute_reach("slurm", known, "slurm")
        is EVERYBODY
    )
    assert compute_reach("whoever", NO_ROSTER) is UNKNOWN, "nobody says: it is tried"
    assert UNKNOWN.can_move(1, "a")
    assert compute_reach("root", NO_ROSTER) is EVERYBODY
    coordinator = compute_reach("co", known)
    assert coordinator.describe_scope() == "jobs of accounts that it coordinates (a, b)"
    assert (coordinator.can_move(0, "a"), coordinator.can_move(0, "d")) == (True, False)
    daemon = compute_reach("daemon", known)
    assert daemon.can_move(pwd.getpwnam("daemon").pw_uid, "d"), "its own"
    assert "neither Operator nor coordinator" in daemon.describe_scope()


def test_a_change_of_rights_is_said_once() -> None:
    found = [MoveScope(uid=77), MoveScope(uid=77), COORDINATOR, COORDINATOR, UNKNOWN]
    ask = ReachReporter(iter(found).__next__)
    with capture_logs() as said:
        assert [ask() for _ in found] == found
    assert [line["jobs"] for line in said] == [
        COORDINATOR.describe_scope(),
        UNKNOWN.describe_scope(),
    ]
