"""A file alone proves nothing: a block counts if its files are those of its manifest."""

from pathlib import Path

import pytest

from mirage.lab.blocks.block_results import BlockResult, BrokenResult, write_result


@pytest.fixture
def making(tmp_path: Path) -> Path:
    """A folder with a file, and a folder with a file, as a job has written them."""
    folder = tmp_path / "results" / ".key.7"
    (folder / "model").mkdir(parents=True)
    (folder / "a.npz").write_text("table")
    (folder / "model" / "card.json").write_text("card")
    (folder / "left over").write_text("of an earlier job")
    return folder


def leave(making: Path) -> Path:
    place = making.with_name("key")
    write_result(making, place, [making / "a.npz", making / "model"], None)
    return place


def take(place: Path, target: Path) -> None:
    result = BlockResult.find(place)
    assert result is not None
    result.place(target)


def test_files_and_folders_come_into_place_and_nothing_else(making: Path, tmp_path: Path) -> None:
    take(leave(making), tmp_path / "out")
    assert (tmp_path / "out" / "a.npz").read_text() == "table"
    assert (tmp_path / "out" / "model" / "card.json").read_text() == "card"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.npz", "model"]


def test_without_a_manifest_there_is_no_result(making: Path) -> None:
    place = making.with_name("key")
    making.rename(place)
    assert BlockResult.find(place) is None


@pytest.mark.parametrize("name", ["a.npz", "model/card.json"])
@pytest.mark.parametrize("harm", ["cut", "gone", "more"])
def test_a_file_that_is_not_the_manifests_is_no_result(
    making: Path, tmp_path: Path, name: str, harm: str
) -> None:
    place = leave(making)
    if harm == "gone":
        (place / name).unlink()
    else:
        (place / name).write_text("" if harm == "cut" else "another")
    with pytest.raises(BrokenResult):
        take(place, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"sums": 3, "refusal": null}'])
def test_a_manifest_that_does_not_read_is_no_result(making: Path, text: str) -> None:
    place = leave(making)
    (place / "manifest.json").write_text(text)
    with pytest.raises(BrokenResult):
        BlockResult.find(place)


def test_of_two_jobs_that_made_a_block_the_first_result_stays(making: Path) -> None:
    place = leave(making)
    second = making.with_name(".key.8")
    second.mkdir()
    (second / "a.npz").write_text("table")
    write_result(second, place, [second / "a.npz"], None)
    result = BlockResult.find(place)
    assert result is not None
    assert result.sums.keys() == {"a.npz", "model/card.json"}
    assert not second.exists()


def test_a_refusal_comes_back_as_it_was_said(making: Path) -> None:
    write_result(making, making.with_name("key"), [], "the trace has changed")
    result = BlockResult.find(making.with_name("key"))
    assert result is not None
    assert (result.refusal, result.sums) == ("the trace has changed", {})
