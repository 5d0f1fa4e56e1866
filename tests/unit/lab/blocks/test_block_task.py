"""The input of a work: known by its sum, and not kept for ever."""

import os
import pickle
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import InputError
from mirage.lab.blocks import block_task
from mirage.lab.blocks.block_task import BlockTask
from tests.support.blocks.text_blocks import TextMaker

MAKER = partial(TextMaker)


def test_the_same_input_has_the_same_folder_which_others_may_not_read(tmp_path: Path) -> None:
    work = block_task.save_input(tmp_path / "shared", MAKER)
    assert block_task.save_input(tmp_path / "shared", MAKER) == work
    assert block_task.save_input(tmp_path / "shared", partial(TextMaker, is_lost=True)) != work
    assert work.stat().st_mode & 0o077 == 0


def test_equal_input_of_another_process_has_the_same_folder(tmp_path: Path) -> None:
    text = "".join(["two", " words"])
    once: Any = partial(dict, a=text, b=text)
    twice: Any = partial(dict, a=text, b="".join(["two", " words"]))
    assert pickle.dumps(once) != pickle.dumps(twice)
    assert block_task.save_input(tmp_path, once) == block_task.save_input(tmp_path, twice)


def test_an_input_that_was_changed_is_not_run(tmp_path: Path) -> None:
    work = block_task.save_input(tmp_path, MAKER)
    (work / block_task.INPUT).write_bytes(b"something else")
    with pytest.raises(OSError, match="not what was saved"):
        block_task.load_input(work)


def test_a_folder_in_which_others_may_write_is_refused_before_a_job_runs_what_lies_there(
    tmp_path: Path,
) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(InputError, match=f"others may replace .* may write in {open_to_all}"):
        block_task.save_input(open_to_all, MAKER)
    work = block_task.save_input(tmp_path / "own", MAKER)
    work.chmod(0o777)
    with pytest.raises(InputError, match=f"others may write in {work}: run `chmod go-w"):
        block_task.save_input(tmp_path / "own", MAKER)


def test_a_work_that_nobody_goes_on_with_is_removed(tmp_path: Path) -> None:
    old, new = (
        block_task.save_input(tmp_path, partial(TextMaker, is_lost=x)) for x in (False, True)
    )
    long_ago = time.time() - block_task.KEPT_S - 1
    os.utime(old, (long_ago, long_ago))
    block_task.save_input(tmp_path, MAKER)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_job_takes_over_what_the_one_before_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = block_task.save_input(tmp_path, MAKER)
    left = work / "results" / ".key.6-0"
    left.mkdir()
    (left / "stage").touch()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    BlockTask(work, "key", "block.txt", range(2))()
    assert not left.exists(), "the job before would write on"
    assert sorted(path.name for path in (work / "results" / "key").iterdir()) == [
        "block.txt",
        "manifest.json",
        "stage",
    ]
