"""Blocks made by arrays: the same bytes as here, whatever becomes of jobs, answers and the head."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirage.config.settings import SlurmSettings
from mirage.errors import ClusterRefused, InputError
from mirage.lab.blocks import block_task
from mirage.lab.blocks.block_executor import BlockWork, MakerFactory
from mirage.lab.blocks.local_processes import IN_THIS_PROCESS
from mirage.lab.blocks.slurm_arrays import MOST_TRIES, BlocksFailed, SlurmArrays
from tests.support.blocks import text_blocks
from tests.support.blocks.fake_slurm import FakeSlurm
from tests.support.patient import wait_until


class Head:
    """An executor, and what it has said."""

    def __init__(self, folder: Path) -> None:
        self.warnings: list[str] = []
        self.points = 0
        self.shared = folder / "shared"
        self.executor = SlurmArrays(SlurmSettings(folder=self.shared), self.warnings.append)

    def make(self, maker: MakerFactory[range], blocks: Mapping[Path, range]) -> None:
        self.executor.make_blocks(BlockWork(maker, blocks), self.count)

    def count(self, points: int) -> None:
        self.points += points


@pytest.fixture
def head(slurm: FakeSlurm, tmp_path: Path) -> Head:
    return Head(tmp_path)


def make_here(folder: Path, count: int) -> list[str]:
    blocks = text_blocks.list_blocks(folder, count)
    IN_THIS_PROCESS.make_blocks(BlockWork(text_blocks.begin(), blocks), lambda _: None)
    return text_blocks.read_blocks(blocks)


def test_an_array_makes_what_this_process_makes_and_leaves_nothing_behind(
    head: Head, slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("SLURM_JOB_ID", "the job of the head")
    monkeypatch.setenv("SLURM_CONF", "/opt/slurm.conf")
    blocks = text_blocks.list_blocks(tmp_path / "made", 3)
    head.make(text_blocks.begin(), blocks)
    assert text_blocks.read_blocks(blocks) == make_here(tmp_path / "here", 3)
    assert head.points == 9
    assert slurm.list_submitted() == [3]
    assert list(head.shared.iterdir()) == []
    names = set(
        re.findall("^((?:MIRAGE_|PG|SLURM_)[A-Z_]*)=", slurm.read_environment(), re.MULTILINE)
    )
    assert names == {"SLURM_CONF"}
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [p.name for p in blocks]


def test_a_block_whose_job_ends_early_is_made_by_the_next_job(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    tries.mkdir()
    blocks = text_blocks.list_blocks(tmp_path / "made", 2)
    head.make(text_blocks.begin(crashes=tries), blocks)
    assert text_blocks.read_blocks(blocks) == make_here(tmp_path / "here", 2)
    assert sum(slurm.list_submitted()) == 4


def test_a_block_that_no_job_makes_is_named_and_a_new_command_tries_again(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    blocks = text_blocks.list_blocks(tmp_path / "made", 1)
    lost = text_blocks.begin(is_lost=True)
    with pytest.raises(BlocksFailed, match=r"block-0\.txt: not made by 3 jobs"):
        head.make(lost, blocks)
    assert slurm.list_submitted() == [1] * MOST_TRIES
    with pytest.raises(BlocksFailed):
        head.make(lost, blocks)
    assert slurm.list_submitted() == [1] * 2 * MOST_TRIES


def test_what_cannot_be_made_at_all_is_said_once_in_the_makers_words(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    blocks = text_blocks.list_blocks(tmp_path / "made", 1)
    with pytest.raises(InputError, match="the trace has changed"):
        head.make(text_blocks.begin(refusal="the trace has changed"), blocks)
    assert slurm.list_submitted() == [1]
    with pytest.raises(InputError, match="the trace has changed"):
        head.make(text_blocks.begin(refusal="the trace has changed"), blocks)
    assert slurm.list_submitted() == [1, 1], "a new command asks anew"


def test_an_array_of_which_sbatch_brought_no_answer_is_found_and_not_submitted_again(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.answer_once_too_late()
    blocks = text_blocks.list_blocks(tmp_path / "made", 2)
    head.make(text_blocks.begin(), blocks)
    assert text_blocks.read_blocks(blocks) == make_here(tmp_path / "here", 2)
    assert slurm.list_submitted() == [2]
    assert any("Socket timed out" in text for text in head.warnings)


def test_more_blocks_than_the_account_may_submit_are_made_by_and_by(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.take_no_more_than(2)
    blocks = text_blocks.list_blocks(tmp_path / "made", 5)
    head.make(text_blocks.begin(), blocks)
    assert text_blocks.read_blocks(blocks) == make_here(tmp_path / "here", 5)
    assert sum(slurm.list_submitted()) == 5
    assert max(slurm.list_submitted()) <= 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Invalid account or account/partition combination specified", "needs an association"),
        ("AssocMaxSubmitJobLimit", "AssocMaxSubmitJobLimit"),
    ],
)
def test_a_refusal_is_one_sentence_and_nothing_is_tried_again(
    head: Head, slurm: FakeSlurm, tmp_path: Path, text: str, said: str
) -> None:
    slurm.refuse(f"Batch job submission failed: {text}")
    with pytest.raises(ClusterRefused, match=said) as refused:
        head.make(text_blocks.begin(), text_blocks.list_blocks(tmp_path / "made", 2))
    assert "\n" not in str(refused.value)


HEAD = """
import sys
from pathlib import Path
from tests.integration.lab.blocks.test_slurm_arrays import Head
from tests.support.blocks import text_blocks
folder = Path(sys.argv[1])
Head(folder).make(
    text_blocks.begin(gate=f"{folder}/gate"), text_blocks.list_blocks(folder / "made", 2)
)
"""


def test_a_head_that_is_killed_goes_on_with_the_array_that_it_left(
    head: Head, slurm: FakeSlurm, tmp_path: Path
) -> None:
    killed = subprocess.Popen([sys.executable, "-c", HEAD, str(tmp_path)], start_new_session=True)
    wait_until(lambda: any(head.shared.glob("blocks-*/results/.*")), "the jobs run")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (tmp_path / "gate").touch()
    blocks = text_blocks.list_blocks(tmp_path / "made", 2)
    # The same work by its input, which another process has pickled.
    head.make(text_blocks.begin(gate=f"{tmp_path}/gate"), blocks)
    assert text_blocks.read_blocks(blocks) == make_here(tmp_path / "here", 2)
    assert slurm.list_submitted() == [2]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
def test_where_anybody_may_make_folders_another_users_work_is_not_taken_over(
    tmp_path: Path,
) -> None:
    maker = text_blocks.begin()
    tmp_path.chmod(0o1777)
    work = block_task.save_input(tmp_path, maker)
    assert block_task.save_input(tmp_path, maker) == work, "each may have one of their own"
    shutil.chown(work, "nobody")
    with pytest.raises(InputError, match="belongs to nobody"):
        block_task.save_input(tmp_path, maker)
