"""Nodes, partitions and reservations, as a real scontrol showed them and as others may."""

import pytest

from mirage.errors import MalformedText
from mirage.slurm.commands import scontrol_show
from tests.support.slurm.captured import Captures

NODE = "NodeName=n1 CPUTot=16 RealMemory=1000 Gres=gpu:a100:4(S:0-1),gpu:v100:2 State=IDLE"
PARTITION = "PartitionName=p Default=YES MaxTime=UNLIMITED Nodes=n[1-2] PriorityTier=3 State=UP"
RESERVATION = (
    "ReservationName=maint StartTime=1700000000 EndTime=1700003600 Duration=01:00:00 Nodes=n[1-2] "
    "NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=32 "
    "Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)"
)


def test_the_testbeds_nodes(captures: Captures) -> None:
    nodes = scontrol_show.parse_nodes(captures.text("scontrol-show-node.txt"))
    assert [n.name for n in nodes] == [f"gpu0{i}" for i in range(1, 9)]
    assert {(n.cpus, n.memory_mib, n.gpus, n.weight, n.features) for n in nodes} == {
        (16, 256000, 8, 1, "")
    }
    assert [n.name for n in nodes if n.is_out_of_service] == ["gpu07"]


def test_the_testbeds_partitions(captures: Captures) -> None:
    told = captures.text("scontrol-show-partition.txt")
    gpu, debug, long = scontrol_show.parse_partitions(told)
    assert (gpu.name, gpu.default, gpu.max_time_s) == ("gpu", True, 172800)
    assert gpu.nodes == tuple(f"gpu0{i}" for i in range(1, 9))
    assert (debug.nodes, debug.priority_tier, debug.max_time_s) == (("gpu01",), 2, 1800)
    assert (long.max_time_s, long.default, dict(long.others)) == (0, False, {})


def test_records_over_several_lines_read_as_those_on_one() -> None:
    wrapped = NODE.replace(" CPUTot", " \n   CPUTot").replace(" State", "\n   State")
    other = wrapped.replace("=n1", "=n2")
    assert scontrol_show.parse_nodes(f"{wrapped}\n\n{other}\n") == (
        *scontrol_show.parse_nodes(NODE),
        *scontrol_show.parse_nodes(NODE.replace("=n1", "=n2")),
    )


def test_gpus_of_all_types_count_and_what_the_system_keeps_does_not() -> None:
    (node,) = scontrol_show.parse_nodes(f"{NODE} CPUEfctv=14 MemSpecLimit=200 FutureKey=7")
    assert (node.cpus, node.memory_mib, node.gpus) == (14, 800, 6)


def test_a_reason_cannot_pass_for_a_fact() -> None:
    (node,) = scontrol_show.parse_nodes(f"{NODE} Reason=broken State=DOWN CPUTot=0 [root@now]")
    assert (node.state, node.cpus) == ("IDLE", 16)
    # As 22.05.8 shows a reason of several lines. MemSpecLimit it shows only where it is set.
    told = " Reason=fan MemSpecLimit=9 [root@2026-11-25T11:29:32]        NodeName=n2 CPUTot=9"
    assert scontrol_show.parse_nodes(NODE + told) == (node,)


def test_a_comment_cannot_pass_for_a_node() -> None:
    """As 22.05.8 shows one of several lines."""
    told = " Comment=fan\nNodeName=n1 CPUTot=998 State=IDLE\n"
    with pytest.raises(MalformedText, match="2 records are NodeName=n1"):
        scontrol_show.parse_nodes(NODE + told)


@pytest.mark.parametrize(
    ("state", "out"),
    [
        ("IDLE", False),
        ("MIXED+PLANNED", False),
        ("ALLOCATED+MAINTENANCE", False),
        ("IDLE+CLOUD+POWERED_DOWN", False),
        ("DOWN*", True),
        ("DOWN*+NOT_RESPONDING", True),
        ("IDLE+DRAIN", True),
        ("ALLOCATED+DRAIN", True),
    ],
)
def test_nodes_that_are_out_are_known_by_their_state(state: str, *, out: bool) -> None:
    (node,) = scontrol_show.parse_nodes(NODE.replace("IDLE", state))
    assert node.is_out_of_service is out


def test_nodes_of_the_future_are_not_there() -> None:
    future = NODE.replace("n1", "n2").replace("IDLE", "FUTURE")
    assert [n.name for n in scontrol_show.parse_nodes(f"{NODE}\n{future}")] == ["n1"]


def test_what_narrows_a_partition_is_kept() -> None:
    text = f"{PARTITION} AllowQos=high AllowGroups=ALL QoS=N/A MaxNodes=4 OverSubscribe=FORCE:2"
    (partition,) = scontrol_show.parse_partitions(text)
    assert dict(partition.others) == {"AllowQos": "high", "MaxNodes": "4"}
    assert partition.over_subscribe == "FORCE:2"


def test_reservations_and_none() -> None:
    (maint,) = scontrol_show.parse_reservations(RESERVATION)
    assert (maint.name, maint.start, maint.end) == ("maint", "1700000000", "1700003600")
    assert (maint.nodes, maint.beneficiaries) == (("n1", "n2"), "root")
    assert maint.flags == {"MAINT", "SPEC_NODES"}
    assert scontrol_show.parse_reservations("No reservations in the system\n") == ()


@pytest.mark.parametrize("text", ["", "slurm_load_node error", "NodeName=n1 Arch=x86_64\n"])
def test_no_nodes_are_no_answer(text: str) -> None:
    with pytest.raises(MalformedText):
        scontrol_show.parse_nodes(text)


@pytest.mark.parametrize("text", ["", "PartitionName=p AllowGroups=ALL", "NodeName=n1"])
def test_no_partitions_are_no_answer(text: str) -> None:
    with pytest.raises(MalformedText):
        scontrol_show.parse_partitions(text)


def test_a_number_that_does_not_read_is_named() -> None:
    with pytest.raises(MalformedText, match="RealMemory=much is not a number"):
        scontrol_show.parse_nodes(NODE.replace("1000", "much"))
