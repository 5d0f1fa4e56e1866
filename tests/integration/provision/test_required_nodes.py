"""A standby that asks for a drained node by name is at risk, however Slurm words its wait."""

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.job import JobId
from mirage.domain.snapshot import Node
from mirage.errors import ClusterUnavailable
from mirage.policies.rules.lead_rules import Reactive
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.text import delimited_rows
from tests.support.cluster.commands import FakeCommands
from tests.support.provision.printed import print_row
from tests.support.provision.slurm_jobs import CHAIN, HOUR, NOW, WrittenCluster, chain, job, running

ASIDE = "ReqNodeNotAvail, May be reserved for other job"
"""Of 24.11 and later; 22.05 says UnavailableNodes:gpu02."""


@pytest.fixture
def mute_commands(commands: FakeCommands) -> FakeCommands:
    for name in ("sacct", "scontrol", "sdiag"):
        commands.answers(name, stderr="not here", code=1)
    return commands


def pair(reason: str, nodes: str = "1") -> str:
    """Link 1 runs; link 2 waits, and is free."""
    common = {"UserID": "1000", "NumNodes": nodes}
    first = print_row(
        **common,
        State="RUNNING",
        Reason="None",
        StartTime=str(NOW - 60),
        NodeList="gpu01",
        Comment=f"mirage:{CHAIN}:1",
    )
    second = print_row(**common, JobID="12", Reason=reason, Comment=f"mirage:{CHAIN}:2")
    return (first + second).replace(delimited_rows.SEPARATOR, "|")


def sinfo(**states: str) -> str:
    return "".join(f"{name}|gpu|{state}|0/8/0/8|gpu:4|gpu:0|\n" for name, state in states.items())


def risk_after_two_looks(store: Store, commands: FakeCommands, queue: str, asked: str) -> str:
    commands.answers("squeue", queue, by_argument={"--jobs=12": asked})
    worker = Worker(
        store,
        SlurmCli(),
        1,
        settings=DecisionSettings(get_policy=lambda _: Reactive(), default_policy="r"),
    )
    for _ in range(3):  # Slurm is asked about links that are known
        worker.run_tick()
    found = chain(store).at_risk
    return "" if found is None else found.word


@pytest.mark.parametrize("state", ["drained", "draining", "down*", "maint", "drained*", "failing"])
@pytest.mark.parametrize("reason", [ASIDE, ASIDE.replace(" ", "_"), f"({ASIDE})"])
def test_a_node_of_its_own_that_is_out_of_service_is_a_risk(
    lab_store: Store, mute_commands: FakeCommands, state: str, reason: str
) -> None:
    mute_commands.answers("sinfo", sinfo(gpu01="mixed", gpu02=state))
    assert risk_after_two_looks(lab_store, mute_commands, pair(reason), "12|N/A|gpu02|\n") == (
        "ReqNodeNotAvail"
    )


@pytest.mark.parametrize(
    ("asked", "nodes", "drained", "risk"),
    [
        ("12|N/A||\n", "1", "gpu02", ""),
        ("12|N/A|(null)|\n", "1", "gpu02", ""),
        ("12|N/A|gpu01|\n", "1", "gpu02", ""),
        ("12|N/A|gpu[01-03]|\n", "2", "gpu02", ""),
        ("12|N/A|gpu[01-03]|\n", "3", "gpu02", "ReqNodeNotAvail"),
        ("12|N/A|gpu02|\n", "3", "gpu02", "ReqNodeNotAvail"),
        ("12|12|gpu01|\n13|12|gpu02|\n", "2", "gpu02", "ReqNodeNotAvail"),
        ("12|N/A|gpu[|\n", "1", "gpu02", ""),
        ("", "1", "gpu02", ""),
    ],
)
def test_it_is_one_only_where_too_few_of_its_nodes_are_left(
    lab_store: Store, mute_commands: FakeCommands, asked: str, nodes: str, drained: str, risk: str
) -> None:
    """Since 23.02 --nodelist may name more nodes than the job takes."""
    states = dict.fromkeys(("gpu01", "gpu02", "gpu03"), "idle") | {drained: "drained"}
    mute_commands.answers("sinfo", sinfo(**states))
    assert risk_after_two_looks(lab_store, mute_commands, pair(ASIDE, nodes), asked) == risk


def test_nobody_is_asked_while_all_nodes_serve_or_the_wait_is_another(
    lab_store: Store, mute_commands: FakeCommands
) -> None:
    mute_commands.answers("sinfo", sinfo(gpu01="mixed", gpu02="reserved"))
    assert risk_after_two_looks(lab_store, mute_commands, pair(ASIDE), "12|N/A|gpu02|\n") == ""
    mute_commands.answers("sinfo", sinfo(gpu01="mixed", gpu02="drained"))
    assert risk_after_two_looks(lab_store, mute_commands, pair("Priority"), "12|N/A|gpu02|\n") == ""
    assert not [call for call in mute_commands.calls("squeue") if "--jobs=12" in call]


def test_where_slurm_does_not_say_the_wait_is_an_ordinary_one(lab_store: Store) -> None:
    cluster = WrittenCluster(running(1), job(2, reason=ASIDE))
    drained = Node(
        name="gpu02",
        partitions=("gpu",),
        state="drained",
        cpus=8,
        cpus_used=0,
        gpus=0,
        gpus_used=0,
    )
    cluster.known_nodes = (drained,)
    cluster.errors["asked_nodes"] = ClusterUnavailable("no answer")
    worker = Worker(
        lab_store,
        cluster,
        1,
        settings=DecisionSettings(get_policy=lambda _: Reactive(), default_policy="r"),
    )
    for _ in range(3):
        worker.run_tick()
        cluster.at += 60
    assert chain(lab_store).at_risk is None
    del cluster.errors["asked_nodes"]
    cluster.requested_nodes[JobId(12)] = "gpu02"
    for _ in range(2):
        worker.run_tick()
        cluster.at += HOUR // 60
    found = chain(lab_store).at_risk
    assert found is not None
    assert found.word == "ReqNodeNotAvail"
