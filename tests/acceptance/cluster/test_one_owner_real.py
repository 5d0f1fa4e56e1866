"""One user's chains, on a real Slurm, take nothing from anybody else's: not act, not the budget.

Ticks as the service makes them, of a database of their own, at bounds of seconds.
"""

import time

import pytest

from mirage.chains import link_sync
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import Effect
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Mark
from mirage.domain.decision import Forecast, Mode
from mirage.domain.job import JobId
from mirage.domain.snapshot import Queue, Snapshot
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.commands import squeue
from tests.support.cluster.slurm_rig import SlurmRig
from tests.support.provision.scene import Always

pytestmark = pytest.mark.slurm

SETTINGS = "mirage:style=concurrent,max-overlap=4:00:00"
SMALL = ("-N1", "-n1", "--mem=50M", "-t", "60")
WHOLE_NODE = ("-N1", "--exclusive", "-t", "60")
ALL_NODES = ("-N2", "--exclusive", "-t", "60")


class AtOnce(Always):
    """Frees at once, and expects no wait."""

    def __init__(self, name: str = "always") -> None:
        super().__init__(name, Forecast(p50_s=0.0, p90_s=600.0))


FREES = DecisionSettings(
    get_policy=AtOnce, default_policy="always", limits=Limits(demote_after=2, demote_error_s=1.0)
)


class OwnersScene:
    def __init__(self, rig: SlurmRig, store: Store) -> None:
        self.rig, self.store, self.testbed = rig, store, rig.testbed
        # A look that takes long on a busy host is no reason to leave out the next.
        self.cluster = SlurmCli(timeout_s=100.0)

    def submit_chain(
        self, name: str, user: str, standby: tuple[str, ...] = SMALL, after: str = "afterany:{0}"
    ) -> tuple[JobId, JobId]:
        """A link that runs on one CPU, and its standby. Slurm still shows jobs of earlier tests, so
        each chain has a name of its own."""
        mark = f"{SETTINGS} {Mark(ChainId(name), 1)}"
        first = self.testbed.sbatch(*SMALL, f"--comment={mark}", user=user)
        self.testbed.wait_until(lambda: self.testbed.state(first) == "RUNNING", 60, f"{first} runs")
        mark = f"{SETTINGS} {Mark(ChainId(name), 2)}"
        words = (f"--comment={mark}", f"--dependency={after.format(first)}")
        return JobId(first), JobId(self.testbed.sbatch(*standby, *words, user=user))

    def look(self) -> Queue:
        """Read the queue, and what became of the links."""
        queue = self.cluster.fetch_queue()
        with self.store.begin() as tx:
            marked = link_sync.list_marked_jobs(queue)
            link_sync.sync_links(tx, 1, marked, queue.taken_at, queue=queue)
        return queue

    def tick(self, settings: DecisionSettings = FREES) -> None:
        self.provision(self.look(), settings)

    def provision(self, queue: Queue, settings: DecisionSettings = FREES) -> None:
        provision_handovers(self.store, self.cluster, 1, Snapshot(queue=queue, nodes=()), settings)

    def is_eligible(self, job_id: JobId) -> bool:
        return self.testbed.job(job_id)["Dependency"] == "(null)"

    def await_run(self, job_id: JobId) -> None:
        """Let it run, and be seen to."""
        self.testbed.wait_until(
            lambda: self.testbed.state(job_id) == "RUNNING", 120, f"{job_id} to run"
        )


@pytest.fixture
def owners(slurm_rig: SlurmRig, acting_store: Store) -> OwnersScene:
    return OwnersScene(slurm_rig, acting_store)


def test_one_users_hopeless_standbys_demote_that_users_chains_alone(owners: OwnersScene) -> None:
    """They ask for all of the node that a long job of alice's own has left."""
    hers = [owners.submit_chain(f"alices{number:06}", "alice", WHOLE_NODE) for number in (1, 2)]
    his = owners.submit_chain("bobs00000001", "bob")
    owners.tick()
    assert all(owners.is_eligible(standby) for _, standby in [*hers, his])
    freed = time.time()
    owners.testbed.wait_until(lambda: time.time() > freed + 4, 60, "a wait beyond the bound")
    busy = [*his, *(first for first, _ in hers)]
    owners.testbed.run(["scancel", *map(str, busy)])
    for _, standby in hers:
        owners.await_run(standby)
        owners.tick()
        owners.testbed.run(["scancel", str(standby)])
    owners.tick()
    with owners.store.read() as tx:
        assert clusters.list_modes(tx, 1)[""] is Mode.ACT
    again = owners.submit_chain("alices000003", "alice", WHOLE_NODE)
    bobs = owners.submit_chain("bobs00000002", "bob")
    owners.tick()
    assert (owners.is_eligible(again[1]), owners.is_eligible(bobs[1])) == (False, True)
    with owners.store.read() as tx:
        row = decisions.find_last_decision(tx, 1, ChainId("alices000003"), 2)
    assert row is not None
    assert row.mode is Mode.SHADOW
    assert "in shadow until a forecast there is right" in row.reason


def test_plans_of_ones_own_that_ask_for_all_nodes_leave_the_budget_to_others(
    owners: OwnersScene,
) -> None:
    """Each of alice's could cost two node-hours, bob's release one, and the cluster has three."""
    limits = Limits(cluster_overlap_node_h=3.0, account_overlap_node_h=3.0)
    plan = "afterany:{0}?after:{0}+1"
    _, standby = owners.submit_chain("bobs00000003", "bob")
    hers = [
        owners.submit_chain(f"wides{number:07}", "alice", ALL_NODES, plan)[1] for number in (1, 2)
    ]
    owners.look()
    owners.testbed.wait_until(
        lambda: all(map(owners.is_eligible, hers)), 180, "Slurm to carry out her plans"
    )
    owners.tick(DecisionSettings(get_policy=AtOnce, default_policy="always", limits=limits))
    with owners.store.read() as tx:
        row = decisions.find_last_decision(tx, 1, ChainId("bobs00000003"), 2)
        links = [chains.list_links(tx, 1, ChainId(f"wides{n:07}"))[-1] for n in (1, 2)]
    assert all(link.freed_at is not None for link in links)
    assert owners.is_eligible(standby), row


def test_a_term_that_the_owner_adds_after_the_look_is_kept(owners: OwnersScene) -> None:
    first, standby = owners.submit_chain("alices000004", "alice")
    queue = owners.look()
    own = f"afterok:{owners.rig.predecessor}"
    update = ["scontrol", "update", f"JobId={standby}", f"Dependency=afterany:{first},{own}"]
    owners.testbed.run(update, user="alice")
    owners.provision(queue)
    assert own in owners.testbed.job(standby)["Dependency"]
    with owners.store.read() as tx:
        row = decisions.find_last_decision(tx, 1, ChainId("alices000004"), 2)
    assert row is not None
    assert row.effect is Effect.GIVEN_UP
    assert own in row.error
    owners.tick()
    assert owners.testbed.job(standby)["Dependency"].startswith(own), "tried again, and hers stays"


@pytest.mark.parametrize("text", ["\x1f", "\x1f\n1\x1f0\x1f", "(unfulfilled)\x1f", "?\x1f"])
def test_nobody_writes_a_separator_into_a_dependency(owners: OwnersScene, text: str) -> None:
    """Before a move it is read with a separator that everybody knows."""
    standby = owners.rig.standby
    before = owners.testbed.job(standby)["Dependency"]
    written = f"Dependency=afterany:{owners.rig.predecessor}{text}"
    update = ["scontrol", "update", f"JobId={standby}", written]
    owners.testbed.run(update, user="alice", check=False)
    shown = owners.testbed.run(squeue.build_move_target_argv(standby)).stdout
    assert squeue.parse_move_target(shown).dependency == before
