"""A result that could not be written is told before the work: none of the inputs here exists."""

from pathlib import Path

import pytest

from mirage.lab.output_check import check_makeable, check_writable
from tests.support.mirage_process import run

COMMANDS = {
    "calibrate": "calibrate gone.txt --out {}",
    "evaluate": "evaluate gone.npz --json {}",
    "evaluate --plot": "evaluate gone.npz --plot {}.svg",
    "report": "report shadow --from-sacct gone.txt --cluster gone.toml --html {}",
    "train": "train forest gone.npz --out {}/models/x/1",
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_place_below_a_file_is_no_place(words: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = run(*words.format(tmp_path / "file" / "out").split(), cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f"cannot be written: {tmp_path / 'file'} is not a folder\n")


def test_an_old_result_is_written_over_and_a_folder_is_not(tmp_path: Path) -> None:
    old = tmp_path / "out.json"
    old.touch()
    check_writable(old)
    answer = run("evaluate", "gone.npz", "--json", str(tmp_path))
    assert answer.err == f"mirage: {tmp_path} is a folder: name a file to write\n"


def test_folders_above_a_model_need_not_be_there(tmp_path: Path) -> None:
    check_makeable(tmp_path / "models" / "x" / "1")
    assert not list(tmp_path.iterdir())


def test_a_model_of_a_new_name_is_no_folder_of_models(tmp_path: Path) -> None:
    (tmp_path / "models" / "forest").mkdir(parents=True)
    check_makeable(tmp_path / "models" / "new" / "forest")


@pytest.mark.parametrize(
    ("file", "folder"), [(0o400, 0o700), (None, 0o500), (None, 0o600), (0o600, 0o600)]
)
def test_a_place_that_is_closed_to_us(tmp_path: Path, file: int | None, folder: int) -> None:
    out = tmp_path / "closed" / "out.json"
    out.parent.mkdir()
    if file is not None:
        out.touch(mode=file)
    out.parent.chmod(folder)
    answer = run("evaluate", "gone.npz", "--json", str(out), by_modes=True)
    why = "you lack the permission to write there"
    assert answer.err == f"mirage: {out} cannot be written: {why}\n"
