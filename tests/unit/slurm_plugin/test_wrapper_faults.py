"""What fails before the real sbatch runs costs the chain only; then sbatch has the last word."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import WRAPPER, FakeSlurm

BROKEN = """
import os, sys
sys.path.insert(0, {plugin!r})
from mirage_slurm.wrapper import carrier, main, process, submission
def fails(*_):
    raise BlockingIOError(11, "Resource temporarily unavailable")
{what} = fails
sys.exit(main.main([{wrapper!r}, "--mirage-chain=2", *sys.argv[1:]]))
"""


def broken(
    slurm: FakeSlurm, what: str, *words: str, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The wrapper, with one of its functions failing as where processes or files run out."""
    slurm.script("#!/bin/sh\ntrue\n")
    text = BROKEN.format(plugin=str(PLUGIN), wrapper=str(WRAPPER), what=what)
    driver = slurm.root / "driver.py"
    driver.write_text(text)
    return slurm.sbatch("-ISB", str(driver), *words, program=Path(sys.executable), stdin=stdin)


@pytest.mark.parametrize("what", ["os.fork", "os.pipe"])
def test_where_no_process_can_be_had_the_job_is_submitted_plain(
    slurm: FakeSlurm, what: str
) -> None:
    done = broken(slurm, what, "job.sh")
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert done.stderr.startswith(b"mirage: BlockingIOError: [Errno 11]")
    assert done.stderr.endswith(b"; submitted without a chain\n")
    assert done.stderr.count(b"\n") == 1
    assert [call.argv for call in slurm.calls()] == [["job.sh"]]
    assert slurm.chains() == []


@pytest.mark.parametrize("what", ["os.fork", "os.pipe"])
@pytest.mark.parametrize("lines", [1, 50_000])
def test_so_is_a_script_that_was_read_from_a_pipe(slurm: FakeSlurm, what: str, lines: int) -> None:
    script = b"#!/bin/sh\n" + b"true\n" * lines
    done = broken(slurm, what, stdin=script)
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert slurm.calls()[0].script == script
    assert slurm.chains() == []


@pytest.mark.parametrize("named", ["", "half/sbatch"])
def test_without_its_modules_it_is_the_next_sbatch_on_path(slurm: FakeSlurm, named: str) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    half = slurm.root / "half" / "sbatch"
    half.parent.mkdir()
    shutil.copy(WRAPPER, half)
    given = {"PATH": f"{half.parent}:{slurm.root}/bin:/usr/bin:/bin"}
    given["MIRAGE_REAL_SBATCH"] = str(slurm.root / named) if named else ""
    done = slurm.sbatch("--hold", "job.sh", program=half, env=given)
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert done.stderr.startswith(b"mirage: the wrapper cannot be loaded (")
    assert [call.argv for call in slurm.calls()] == [["--hold", "job.sh"]]


def test_a_comment_that_leaves_no_room_for_the_chains_mark_is_submitted_plain(
    slurm: FakeSlurm,
) -> None:
    """A word of a command holds 128 KiB: the user's own just fits."""
    slurm.script("#!/bin/sh\ntrue\n")
    comment = "--comment=" + "x" * 131050
    done = slurm.sbatch("--mirage-chain=2", comment, "job.sh")
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert done.stderr.endswith(b"; submitted without a chain\n")
    assert [call.argv for call in slurm.calls()] == [[comment, "job.sh"]]
    assert slurm.chains() == []


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("process.ask_queue", 0),
        ("process._pass_output", 0),
        ("process._pass_output", 7),
        ("carrier.remove_directory", 7),
    ],
)
def test_once_sbatch_has_run_its_code_is_the_answer(slurm: FakeSlurm, what: str, code: int) -> None:
    slurm.answers(code=code)
    (slurm.root / "bin" / "sbatch").write_text(_silent(slurm))
    done = broken(slurm, what, "job.sh")
    assert done.returncode == code
    assert done.stderr.startswith(b"mirage: BlockingIOError")
    assert done.stderr.count(b"\n") == 1
    assert len(slurm.calls()) == 1


def _silent(slurm: FakeSlurm) -> str:
    """The fake sbatch, which then names no job: nobody need read what it says."""
    text = (slurm.root / "bin" / "sbatch").read_text()
    return text.replace("printf '%s\\n' \"$out\"", ":")


def test_a_limit_on_the_size_of_files_costs_the_chain_only(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    limited = f'ulimit -f 4; exec "{WRAPPER}" --mirage-chain=2 job.sh'
    done = subprocess.run(
        ["sh", "-c", limited],
        check=False,
        capture_output=True,
        cwd=slurm.root / "home",
        env=slurm.environ,
    )
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert done.stderr.endswith(b"File too large; submitted without a chain\n")
    assert [call.argv for call in slurm.calls()] == [["job.sh"]]
    assert slurm.chains() == []


@pytest.mark.parametrize("way", ["a pipe", "a file"])
def test_a_script_without_end_is_refused_in_sbatchs_own_words(slurm: FakeSlurm, way: str) -> None:
    memory = 512 << 20
    limited = ["prlimit", f"--as={memory}", "--", str(WRAPPER), "--mirage-chain=2"]
    if way == "a file":
        script = slurm.script("#!/bin/sh\n")
        with script.open("rb+") as grown:
            grown.truncate(1 << 40)
    with subprocess.Popen(["yes", "#!/bin/sh"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(
            [*limited, *(["job.sh"] if way == "a file" else [])],
            stdin=endless.stdout,
            capture_output=True,
            check=False,
            cwd=slurm.root / "home",
            env=slurm.environ,
            timeout=60,
        )
        endless.kill()
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == (
        b"sbatch: error: Batch job submission failed:"
        b" Pathname of a file, directory or other parameter too long\n"
    )
    assert slurm.calls() == []
    assert slurm.chains() == []
