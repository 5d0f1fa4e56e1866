"""Blocks over processes: the same table however it is made, and never made twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.lab.blocks.block_executor import PointsCallback
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.episodes.generation import resumable_build
from mirage.lab.episodes.generation.builder import describe_table
from mirage.lab.episodes.generation.resumable_build import TablePlan, build_table
from tests.support.episodes import small
from tests.support.episodes.tables import HOUR_S

MANY = small.settings(time_limit_s=1800, every_s=HOUR_S, until=small.START_POINT + 30 * HOUR_S)
"""30 start points: three blocks."""


def plan(settings: object = None) -> TablePlan:
    params, jobs = small.params(), small.trace(1)
    chosen = MANY if settings is None else settings
    assert isinstance(chosen, type(MANY))
    return TablePlan(params, jobs, chosen, describe_table(params, chosen))


class Interrupted(Exception):
    """As Ctrl-C would."""


def interrupted(after: int) -> PointsCallback:
    heard = []

    def told(done: int) -> None:
        heard.append(done)
        if sum(heard) >= after:
            raise Interrupted

    return told


def test_the_table_is_that_of_one_pass(tmp_path: Path) -> None:
    made = build_table(plan(), tmp_path / "E.npz")
    whole = small.build_episodes(small.params(), small.trace(1), MANY)
    assert made.kept_points == 0
    assert (made.table.outcome_s == whole.outcome_s).all()
    assert (made.table.observations == whole.observations).all()
    assert made.table.metadata == whole.metadata
    assert [p.name for p in tmp_path.iterdir()] == ["E.npz"]


def test_an_interrupted_command_goes_on(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.npz", tmp_path / "E.npz"
    build_table(plan(), whole)
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=24))
    assert not out.exists()
    made = build_table(plan(), out)
    assert made.kept_points == 24
    assert out.read_bytes() == whole.read_bytes()


def test_two_processes_give_the_same_bytes_and_go_on_too(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.npz", tmp_path / "E.npz"
    build_table(plan(), whole)
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=12))
    heard: list[int] = []
    made = build_table(plan(), out, LocalProcesses(2), heard.append)
    assert made.kept_points == 12
    assert sorted(heard) == [6, 12, 12]
    assert out.read_bytes() == whole.read_bytes()


def test_what_is_kept_is_told_and_nothing_is_kept_of_nothing(tmp_path: Path) -> None:
    out = tmp_path / "E.npz"
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=0))
    assert resumable_build.count_kept_points(plan(), out) == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=12))
    assert resumable_build.count_kept_points(plan(), out) == 12


def test_a_pair_elsewhere_is_another_table() -> None:
    others = (
        replace(MANY, partition="batch"),
        replace(MANY, qos="normal"),
        replace(MANY, user="u1"),
        replace(MANY, account="a"),
    )
    assert len({plan(s).fingerprint for s in (MANY, *others)}) == 5


def test_blocks_of_other_settings_are_not_taken(tmp_path: Path) -> None:
    out = tmp_path / "E.npz"
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=12))
    other = plan(replace(MANY, nodes=2))
    assert other.fingerprint != plan().fingerprint
    made = build_table(other, out)
    assert made.kept_points == 0
    assert made.table.metadata.nodes == 2


def test_a_damaged_block_is_made_again(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.npz", tmp_path / "E.npz"
    build_table(plan(), whole)
    with pytest.raises(Interrupted):
        build_table(plan(), out, on_points=interrupted(after=24))
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    block = sorted(folder.iterdir())[0]
    block.write_bytes(block.read_bytes()[:-500])
    assert build_table(plan(), out).kept_points == 12
    assert out.read_bytes() == whole.read_bytes()


def test_an_output_that_cannot_be_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        build_table(plan(), tmp_path / "nowhere" / "E.npz")
    with pytest.raises(InputError, match="is a folder"):
        build_table(plan(), tmp_path)
