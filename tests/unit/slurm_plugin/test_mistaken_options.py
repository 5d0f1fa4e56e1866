"""What somebody is told who knows sbatch, and Mirage's options only nearly."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm

SCRIPT = "#!/bin/sh\n#SBATCH --time=10\necho hello\n"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["job.sh", "--mirage-chain=3"], 1),
        (["job.sh", "--epochs", "3", "--mirage-chain", "3"], 1),
        (["--parsable", "job.sh", "--mirage-chain=3"], 0),
        (["job.sh", "mirage-chain=3"], 0),
    ],
)
def test_an_option_behind_the_script_is_the_scripts_and_that_is_said(
    slurm: FakeSlurm, words: list[str], lines: int
) -> None:
    slurm.script(SCRIPT)
    done = slurm.sbatch(*words)
    assert slurm.chains() == []
    assert [call.argv for call in slurm.calls()] == [words]
    assert done.stderr.count(b"stands behind the script: the script gets the option") == lines
    assert done.stderr.count(b"\n") == lines


def test_help_names_every_setting(slurm: FakeSlurm) -> None:
    done = slurm.sbatch("--mirage-help")
    assert (done.returncode, done.stderr) == (0, b"")
    named = set(re.findall(r"^  --(mirage-[a-z-]+)", done.stdout.decode(), re.MULTILINE))
    program = "from mirage_slurm.wrapper import options; print(*sorted(options.MIRAGE_NAMES))"
    known = subprocess.run(
        [sys.executable, "-c", program], cwd=PLUGIN, capture_output=True, text=True, check=True
    )
    assert named == {*known.stdout.split(), "mirage-help"}
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--mirage-chian=3", "no option '--mirage-chian': did you mean --mirage-chain?; nothing"),
        ("--mirage-overlap=3", "no option '--mirage-overlap': did you mean --mirage-max-overlap?"),
        ("--mirage-xyz", "no option '--mirage-xyz' (`sbatch --mirage-help` lists them); nothing"),
    ],
)
def test_a_mistyped_option_is_answered_with_the_nearest(
    slurm: FakeSlurm, typed: str, said: str
) -> None:
    slurm.script(SCRIPT)
    done = slurm.sbatch(typed, "job.sh")
    assert done.returncode == 1
    assert said in done.stderr.decode()
    assert slurm.chains() == []
