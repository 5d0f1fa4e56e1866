"""Blocks made by arrays of a real Slurm: the same bytes as here, whoever is killed meanwhile."""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirage.config.settings import SlurmSettings
from mirage.errors import ClusterRefused
from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork, MakerFactory
from mirage.lab.blocks.local_processes import IN_THIS_PROCESS
from mirage.lab.blocks.slurm_arrays import SlurmArrays
from mirage.lab.episodes.generation.builder import describe_table
from mirage.lab.episodes.generation.resumable_build import TablePlan, build_table
from tests.support.blocks import text_blocks
from tests.support.episodes import small
from tests.support.fixtures.slurm import testbed_with
from tests.support.paths import CHECKOUT
from tests.support.slurm_testbed import Testbed, TestbedSettings

# A job that Slurm queues again waits for as long as a credential lives.
SOON = TestbedSettings(nodes=3, extra=("AuthInfo=cred_expire=5",))
pytestmark = [pytest.mark.slurm, testbed_with(SOON)]

BLOCKS = 3


@pytest.fixture
def folder(
    testbed: Testbed, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder that the nodes see. Jobs get the variables of this process."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), *sys.path]))
    made = tmp_path_factory.mktemp("blocks")
    yield made
    testbed.cancel_all()
    shutil.rmtree(made)


def build_executor(folder: Path, **settings: object) -> SlurmArrays:
    chosen = {"folder": folder / "shared", "memory_gib": 0.5, "time_limit_h": 0.2} | settings
    return SlurmArrays(SlurmSettings.model_validate(chosen), logging.getLogger(__name__).warning)


def make(executor: BlockExecutor, maker: MakerFactory[range], folder: Path, count: int) -> None:
    """Make text blocks, and compare them with those made here."""
    made, here = (text_blocks.list_blocks(folder / name, count) for name in ("made", "here"))
    executor.make_blocks(BlockWork(maker, made), lambda _: None)
    IN_THIS_PROCESS.make_blocks(BlockWork(text_blocks.begin(), here), lambda _: None)
    assert text_blocks.read_blocks(made) == text_blocks.read_blocks(here)


def list_tasks(testbed: Testbed, states: str = "R") -> list[str]:
    """The tasks in these states: the job id of each, node."""
    words = ["squeue", "-h", "-r", "-n", "mirage-blocks", "-t", states, "-o", "%A %N"]
    return testbed.run(words).stdout.splitlines()


def test_an_episode_table_has_the_same_sum_as_one_made_here(folder: Path) -> None:
    # Little is simulated: it takes longer to compile.
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    words = [sys.executable, "-m", __name__, "tables", str(folder)]
    subprocess.run(words, cwd=CHECKOUT, env=environment, check=True)
    here, jobs = (folder / f"{name}.npz" for name in ("here", "jobs"))
    assert hashlib.sha256(here.read_bytes()).digest() == hashlib.sha256(jobs.read_bytes()).digest()
    assert list((folder / "shared").iterdir()) == []


def make_tables(folder: Path) -> None:
    """Make a table of two blocks in this process, and the same by jobs."""
    params, jobs = small.params(sched_interval_s=900, bf_interval_s=900), small.trace(1, jobs=30)
    settings = small.settings(time_limit_s=600, every_s=600, until=small.START_POINT + 13 * 600)
    plan = TablePlan(params, jobs, settings, describe_table(params, settings))
    build_table(plan, folder / "here.npz", IN_THIS_PROCESS)
    build_table(plan, folder / "jobs.npz", build_executor(folder))


def find_processes(job: str) -> list[int]:
    """Find the processes of a job: its step's daemon first, which would report the others' end."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        is_daemon = words.startswith(f"slurmstepd: [{job}.".encode())
        if is_daemon or f"SLURM_JOB_ID={job}".encode() in variables:
            found.append((not is_daemon, int(folder.name)))
    return [pid for _, pid in sorted(found)]


@contextmanager
def running_head(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that waits for blocks whose jobs wait for the file `gate`."""
    words = [sys.executable, "-m", __name__, "gated", str(folder)]
    with subprocess.Popen(words, cwd=CHECKOUT, start_new_session=True) as head:
        try:
            yield head
        finally:
            head.kill()


def make_gated(folder: Path) -> None:
    blocks: Mapping[Path, range] = text_blocks.list_blocks(folder / "made", BLOCKS)
    maker = text_blocks.begin(gate=f"{folder}/gate")
    build_executor(folder).make_blocks(BlockWork(maker, blocks), lambda _: None)


def test_a_node_is_killed_in_the_middle_and_its_blocks_are_made_elsewhere(
    testbed: Testbed, folder: Path
) -> None:
    with running_head(folder) as head:
        testbed.wait_until(lambda: len(list_tasks(testbed)) == BLOCKS, 120, "the tasks run")
        job, node = list_tasks(testbed)[0].split()
        # Slurm says RUNNING before the node has begun.
        testbed.wait_until(
            lambda: len(find_processes(job)) > 1, 120, "the step's daemon, and the script"
        )
        for pid in (testbed.daemons()[f"slurmd-{node}"], *find_processes(job)):
            os.kill(pid, signal.SIGKILL)
        down = ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed by a test"]
        testbed.run(down)
        (folder / "gate").touch()
        assert head.wait(timeout=600) == 0
    blocks = text_blocks.list_blocks(folder / "made", BLOCKS)
    here = text_blocks.list_blocks(folder / "here", BLOCKS)
    IN_THIS_PROCESS.make_blocks(BlockWork(text_blocks.begin(), here), lambda _: None)
    assert text_blocks.read_blocks(blocks) == text_blocks.read_blocks(here)


def test_a_head_is_killed_and_the_next_one_goes_on_with_its_array(
    testbed: Testbed, folder: Path
) -> None:
    with running_head(folder):
        testbed.wait_until(lambda: len(list_tasks(testbed)) == BLOCKS, 120, "the tasks run")
    before = list_tasks(testbed)
    (folder / "gate").touch()
    make(build_executor(folder), text_blocks.begin(gate=f"{folder}/gate"), folder, BLOCKS)
    looks = (before, list_tasks(testbed, "all"))
    newest, after = (max(int(task.split()[0]) for task in tasks) for tasks in looks)
    assert after == newest, "no other array was submitted"


def test_an_account_without_an_association_is_refused_in_a_sentence(folder: Path) -> None:
    blocks = text_blocks.list_blocks(folder / "made", 2)
    executor = build_executor(folder, account="nobody-has-it")
    with pytest.raises(ClusterRefused, match=r"Invalid account.*needs an association"):
        executor.make_blocks(BlockWork(text_blocks.begin(), blocks), lambda _: None)


@pytest.fixture
def few_jobs(testbed: Testbed) -> Iterator[None]:
    """Root may have two tasks in the queue."""
    words = ["sacctmgr", "-i", "modify", "user", "root", "set"]
    testbed.run([*words, "MaxSubmitJobs=2"])
    yield
    testbed.run([*words, "MaxSubmitJobs=-1"])


@pytest.mark.usefixtures("few_jobs")
def test_more_blocks_than_the_account_may_submit_are_made_by_and_by(folder: Path) -> None:
    make(build_executor(folder), text_blocks.begin(), folder, 5)


def test_an_array_of_which_sbatch_brought_no_answer_is_not_submitted_again(
    testbed: Testbed, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, once = shutil.which("sbatch"), folder / "once"
    (folder / "bin").mkdir()
    script = folder / "bin" / "sbatch"
    script.write_text(
        f'#!/bin/sh\n[ -e {once} ] && exec {real} "$@"\n{real} "$@" > {once}\n'
        "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    make(build_executor(folder), text_blocks.begin(), folder, BLOCKS)
    (array,) = [int(word) for word in once.read_text().split() if word.isdigit()]
    newest = testbed.run(["squeue", "-h", "-t", "all", "-o", "%A", "--sort=-i"]).stdout.split()
    assert max(map(int, newest)) < array + BLOCKS + 1


if __name__ == "__main__":
    {"tables": make_tables, "gated": make_gated}[sys.argv[1]](Path(sys.argv[2]))
