"""The nodes, as a real sinfo told them."""

import pytest

from mirage.domain.snapshot import Node
from mirage.errors import MalformedText
from mirage.slurm.commands import sinfo
from mirage.slurm.text.delimited_rows import SEPARATOR
from mirage.slurm.text.gres import count_gpus
from tests.support.slurm.captured import Captures


@pytest.fixture
def nodes(captures: Captures) -> dict[str, Node]:
    return {node.name: node for node in sinfo.parse_nodes(captures.answer("sinfo.txt"))}


def test_each_node_is_there_once_with_all_its_partitions(nodes: dict[str, Node]) -> None:
    assert sorted(nodes) == [f"gpu0{i}" for i in range(1, 9)]
    assert sorted(nodes["gpu01"].partitions) == ["debug", "gpu", "long"]
    assert sorted(nodes["gpu02"].partitions) == ["gpu", "long"]


def test_a_node_tells_what_it_has_and_what_is_given_away(nodes: dict[str, Node]) -> None:
    node = nodes["gpu05"]
    assert (node.cpus, node.cpus_used, node.gpus, node.gpus_used) == (16, 8, 8, 4)
    assert (node.state, node.is_usable) == ("mixed", True)


def test_a_drained_node_is_not_usable(nodes: dict[str, Node]) -> None:
    assert (nodes["gpu07"].state, nodes["gpu07"].is_usable) == ("drained", False)


def _parse(state: str = "idle", partition: str = "gpu", cpus: str = "0/16/0/16") -> str:
    cells = ["n1", partition, state, cpus, "gpu:a100:8", "gpu:a100:0(IDX:N/A)"]
    return "".join(f"{cell}{SEPARATOR}" for cell in cells) + "\n"


@pytest.mark.parametrize("flag", [*"*~#$@+!%-^", "*+", "~-"])
def test_flags_behind_a_state_are_not_part_of_it(flag: str) -> None:
    (node,) = sinfo.parse_nodes(_parse(state=f"idle{flag}"))
    assert node.state == "idle"


def test_states_of_two_words_and_of_later_releases_are_kept() -> None:
    assert sinfo.parse_nodes(_parse(state="POWERING_DOWN"))[0].state == "powering_down"
    assert sinfo.parse_nodes(_parse(state="hibernating"))[0].is_usable is False


@pytest.mark.parametrize("nothing", ["", "(null)", "N/A"])
def test_a_node_may_be_in_no_partition(nothing: str) -> None:
    assert sinfo.parse_nodes(_parse(partition=nothing))[0].partitions == ()


@pytest.mark.parametrize("cpus", ["16", "0/16/0", "a/b/c/d"])
def test_other_cpus_are_refused(cpus: str) -> None:
    with pytest.raises(MalformedText):
        sinfo.parse_nodes(_parse(cpus=cpus))


def test_a_node_without_a_state_is_refused() -> None:
    with pytest.raises(MalformedText, match="not a node state"):
        sinfo.parse_nodes(_parse(state="?"))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:a100:8", 8),
        ("gpu:8", 8),
        ("gpu", 1),
        ("gres:gpu:4", 4),
        ("gres:gpu:a100:4", 4),
        ("gres/gpu:a100:4", 4),
        ("gres/gpu=2", 2),
        ("gpu:a100:4,gpu:v100:2", 6),
        ("gpu:a100:5(IDX:0-2,5,7)", 5),
        ("gpu:a100:8(S:0-1),shard:32", 8),
        ("gpu:a100:0(IDX:N/A)", 0),
        ("gpu:nvidia_a100_80gb_pcie:4", 4),
        ("shard:4,tmpdisk:100", 0),
        ("gpumem:40", 0),
        ("(null)", 0),
        ("N/A", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_in_every_form_of_the_list(text: str, count: int) -> None:
    assert count_gpus(text) == count
