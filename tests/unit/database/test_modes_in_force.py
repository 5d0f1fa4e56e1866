"""The mode that is shown is the one that holds there."""

import pytest

from mirage.database.operations import admin_overrides, clusters
from mirage.database.operations.admin_overrides import PulledSwitch
from mirage.database.operations.modes_in_force import ModesInForce, read_modes
from mirage.database.schema.engine import Store
from mirage.domain.decision import Mode
from tests.support.chains import make_chain, make_link

OBSERVE, SHADOW, ACT = Mode.OBSERVE, Mode.SHADOW, Mode.ACT
CHAIN = make_chain()


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"": SHADOW}, "shadow"),
        ({"": ACT, "gpu": ACT}, "act"),
        ({"": SHADOW, "gpu": ACT}, "act in gpu, else shadow"),
        ({"": ACT, "b": OBSERVE, "a": SHADOW}, "shadow in a, observe in b, else act"),
        ({"": SHADOW, "c": ACT, "a": ACT, "b": ACT}, "act in a, b and c, else shadow"),
        ({"": SHADOW} | dict.fromkeys("abcd", ACT), "act in 4 partitions, else shadow"),
    ],
)
def test_all_modes_are_one_sentence(own: dict[str, Mode], says: str) -> None:
    assert ModesInForce(by_partition=own).describe() == says


def test_a_reader_who_may_not_know_partitions_learns_no_name() -> None:
    modes = ModesInForce(by_partition={"": SHADOW, "secret": ACT}).hide_names()
    assert modes.describe() == "act in 1 partition, else shadow"
    assert modes.own_modes == {}
    assert modes.get_chain_mode(CHAIN, "secret", 1) is ACT


def test_a_chains_mode_is_that_of_its_waiting_link(store: Store, cluster_id: int) -> None:
    links = [
        make_link(CHAIN.chain_id, n, 100 + n, partition=p) for n, p in ((1, "cpu"), (2, "gpu"))
    ]
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, ACT, "gpu")
        modes = read_modes(tx, cluster_id)
    first, second = links[0].move_to(links[0].state), links[1]
    assert modes.get_shown_mode(CHAIN, [first]) is SHADOW
    assert modes.get_shown_mode(CHAIN, [second]) is ACT
    assert modes.get_shown_mode(CHAIN, []) is SHADOW


def test_nothing_acts_while_the_kill_switch_is_pulled(store: Store, cluster_id: int) -> None:
    """Also where a mode was set by another way than the command."""
    with store.begin() as tx:
        switch = PulledSwitch(way="rest", by="root", at=1, stopped=())
        admin_overrides.pull_switch(tx, cluster_id, switch)
        clusters.set_mode(tx, cluster_id, ACT)
        clusters.set_mode(tx, cluster_id, OBSERVE, "cpu")
        modes = read_modes(tx, cluster_id)
    assert modes.pulled
    assert (modes.describe(), modes.cluster_mode) == ("observe in cpu, else shadow", SHADOW)
    assert modes.get_chain_mode(CHAIN, "gpu", 1) is SHADOW
    assert modes.get_chain_mode(CHAIN, "cpu", 1) is OBSERVE
