"""Which shapes of chain a site learns for."""

from dataclasses import replace

import pytest

from mirage.database.chains.chain_shapes import OwnedShape
from mirage.errors import InputError
from mirage.lab.learning.chain_shapes import (
    MOST_SHAPES,
    ChainShape,
    choose_shapes,
    parse_shapes,
)
from mirage.simulator.types import Params, Partition
from tests.support.episodes.tables import HOUR_S
from tests.support.simulator.jobs import make_sim_job

PARAMS = Params(
    name="two",
    nodes=8,
    partitions=(Partition(name="day", max_time_s=24 * HOUR_S), Partition(name="all")),
)


def owned(user: str, nodes: int, hours: int, links: int = 10, partition: str = "day") -> OwnedShape:
    limit_s = hours * HOUR_S
    return OwnedShape(
        user=user, partition=partition, nodes=nodes, time_limit_s=limit_s, links=links
    )


def chosen(*rows: OwnedShape) -> list[tuple[str, int, int]]:
    found = choose_shapes(rows, [], PARAMS)
    return [(s.partition, s.nodes, s.time_limit_s // HOUR_S) for s in found.shapes]


def test_every_owner_has_one_vote_however_many_links() -> None:
    rows = [owned("loud", 4, 12, 10_000), owned("a", 1, 6, 5), owned("b", 1, 6, 5)]
    assert chosen(*rows) == [("day", 1, 6)]


def test_an_owner_of_two_shapes_shares_the_vote() -> None:
    rows = [
        *(owned("a", 1, 6, 5), owned("a", 2, 12, 5)),
        *(owned("b", 1, 6, 9), owned("b", 2, 12, 1)),
    ]
    assert chosen(*rows) == [("day", 1, 6)]


def test_a_model_is_of_one_time_limit_and_the_others_are_named() -> None:
    rows = [owned("a", 1, 6), owned("b", 2, 6), owned("c", 1, 12)]
    found = choose_shapes(rows, [], PARAMS)
    assert {shape.time_limit_s for shape in found.shapes} == {6 * HOUR_S}
    assert any("day: 1 node, 12:00:00 is not learned for" in note for note in found.notes)


def test_shapes_are_few() -> None:
    assert len(chosen(*(owned("a", n, 6) for n in range(1, 8)))) == MOST_SHAPES


def test_a_shape_that_the_cluster_file_has_no_place_for_is_left_out_and_named() -> None:
    found = choose_shapes([owned("a", 9, 6), owned("b", 1, 6)], [], PARAMS)
    assert [shape.nodes for shape in found.shapes] == [1]
    assert any("9 nodes" in note for note in found.notes)


def test_two_links_do_not_stand_for_a_site() -> None:
    jobs = [make_sim_job(1, nodes=2, limit_s=4 * HOUR_S, partition="all")]
    found = choose_shapes([owned("a", 1, 6, links=2)], jobs, PARAMS)
    assert [(s.partition, s.nodes) for s in found.shapes] == [("all", 2)]
    assert "most used long jobs" in found.shapes[0].why


def test_a_cluster_file_that_fits_nothing_is_told_in_a_sentence() -> None:
    with pytest.raises(InputError, match="the cluster file fits no chain and no long job"):
        choose_shapes([owned("a", 99, 6)], [], PARAMS)


def test_shapes_are_read_as_they_were_kept() -> None:
    found = choose_shapes([owned("a", 1, 6)], [], PARAMS)
    kept = {"shapes": [s.build_document() for s in found.shapes], "notes": list(found.notes)}
    assert parse_shapes(kept, PARAMS) == found
    assert parse_shapes(kept, replace(PARAMS, partitions=(Partition(name="other"),))) is None
    assert parse_shapes({"shapes": [{"nodes": "x"}]}, PARAMS) is None


def test_a_partition_of_any_name_is_one_folder() -> None:
    names = {
        ChainShape(partition=p, nodes=1, time_limit_s=60).folder
        for p in ("a/b", "a%2fb", "../a", "a b")
    }
    assert len(names) == 4
    assert not any("/" in name or name.startswith(".") for name in names)
