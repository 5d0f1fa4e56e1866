"""A script that cancels its chain's next link wants no further one; nobody else speaks for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import PATIENCE_S
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.once import Queue

HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
NEXT = "next=$(sbatch --parsable -d afterany:$SLURM_JOB_ID job.sh)\necho step >>$HOME/steps\n"
SECOND = '[ "$(wc -l <$HOME/steps)" -lt 2 ] || '
WAYS = {
    "by id": 'scancel "$next"\n',
    "with an option": 'scancel --verbose --ctld "$next"\n',
    "from a program": "python3 -c 'import os, sys; os.execlp(*sys.argv[1:])' scancel . $next\n",
    "of all that waits": "scancel --state=PENDING $(cat $MIRAGE_DIR/jobs/$((MIRAGE_LINK + 1)))\n",
    "by its path": "$HOME/../bin/scancel $next\n",
}


def submit(slurm: FakeSlurm, body: str, *words: str) -> tuple[Queue, Path]:
    """Submit a chain of six; Slurm knows each job that stands."""
    for job in range(102, 110):
        slurm.job_is(job, "PENDING")
    slurm.script(HEAD + body)
    done = slurm.sbatch("--mirage-chain=6", *words, "job.sh")
    assert done.returncode == 0, done.stderr
    (chain,) = slurm.chains()
    return Queue(slurm), chain


def step(queue: Queue, count: int) -> str:
    """What this many links said, run in turn."""
    queue.run(most=count)
    return queue.done[-1].stderr.decode()


@pytest.mark.parametrize("way", WAYS)
def test_a_standby_that_the_running_link_cancels_is_the_chains_end(
    slurm: FakeSlurm, way: str
) -> None:
    queue, chain = submit(slurm, NEXT + SECOND + WAYS[way])
    step(queue, 1)
    said = step(queue, 2)
    assert said.count("mirage: the chain is done: ") == 1, said
    assert "no further link is wanted" in said
    assert len(slurm.calls()) == 3, "link 3 is not made anew"
    assert "no further link is wanted" in (chain / "done").read_text()
    assert "the chain is done" in (chain / "log").read_text()


def test_with_all_links_in_the_queue_none_of_them_is_left(slurm: FakeSlurm) -> None:
    queue, _ = submit(slurm, NEXT + WAYS["by id"], "--mirage-presubmit=all")
    step(queue, 1)
    taken = (slurm.root / "scancelled").read_text().split()
    assert {"103", "104", "105", "106"} <= set(taken)


@pytest.mark.parametrize(
    "body",
    [
        NEXT + "echo CANCELLED None N/A N/A >$HOME/../state.102\n",
        NEXT + "echo CANCELLED None N/A N/A >$HOME/../state.102\nscancel 900\n",
        NEXT + "env -u SLURM_JOB_ID scancel $next\n",
        "echo CANCELLED None N/A N/A >$HOME/../state.102\n/bin/true scancel\n",
    ],
    ids=["elsewhere", "elsewhere, and the script another job", "in no link", "of an unknown job"],
)
def test_a_standby_that_somebody_else_cancels_is_made_anew(slurm: FakeSlurm, body: str) -> None:
    queue, chain = submit(slurm, body)
    step(queue, 1)
    assert not (chain / "done").exists()
    assert (chain / "lost.2").read_text() == "102\n"


def test_what_the_carrier_takes_back_is_no_word_of_its_script(slurm: FakeSlurm) -> None:
    queue, chain = submit(slurm, "exit 1\n", "--mirage-continue=TIMEOUT")
    said = step(queue, 1)
    assert "102" in (slurm.root / "scancelled").read_text().split()
    assert not (chain / "done").exists()
    assert "the chain is done" not in said


def test_a_script_that_submits_again_after_its_scancel_has_a_next_link(slurm: FakeSlurm) -> None:
    queue, chain = submit(slurm, NEXT + 'scancel "$next"\nsbatch job.sh\n')
    step(queue, 1)
    assert not (chain / "done").exists()
    assert len(slurm.calls()) == 3
    assert f"--comment=mirage:{chain.name}:2" in slurm.calls()[2].argv


def test_a_scancel_of_other_jobs_asks_nothing(slurm: FakeSlurm) -> None:
    """Somebody else may cancel the standby just then."""
    slurm.command(
        "scancel", "#!/bin/sh\necho $* >>{home}/scancelled\necho CANCELLED >{home}/state.102\n"
    )
    queue, chain = submit(slurm, "scancel 900 901,902\n")
    step(queue, 1)
    assert (slurm.root / "scancelled").read_text() == "900 901,902\n"
    assert not (chain / "done").exists()


@pytest.mark.parametrize("path", ["{0}:{1}:{0}", "{1}:{0}", "{0}:{2}:{1}:{0}"])
def test_the_real_one_is_found_wherever_path_has_it(slurm: FakeSlurm, path: str) -> None:
    """On a host without /usr/bin/scancel, and with another copy of the plugin."""
    other = slurm.root / "other"
    other.mkdir()
    text = (PLUGIN / "scancel").read_text().replace("/usr/bin/scancel", "/nowhere/scancel")
    for folder in (other, slurm.root / "own"):
        folder.mkdir(exist_ok=True)
        (folder / "scancel").write_text(text)
        (folder / "scancel").chmod(0o755)
        (folder / "mirage-link").touch()
    real = slurm.root / "real"
    real.mkdir()
    (real / "scancel").write_text("#!/bin/sh\necho real $*\n")
    (real / "scancel").chmod(0o755)
    own = slurm.root / "own"
    env = slurm.environ | {"PATH": path.format(own, real, other)}
    done = subprocess.run(
        [own / "scancel", "7"], env=env, capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"real 7\n", b"")


@pytest.mark.parametrize("words", [[], ["-u", "alice"], ["--signal=USR1", "7"], ["a  b", ""]])
def test_anywhere_else_it_is_the_real_scancel(slurm: FakeSlurm, words: list[str]) -> None:
    slurm.command("scancel", "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 3\n")
    done = subprocess.run(["scancel", *words], env=slurm.environ, capture_output=True, check=False)
    shown = "".join(f"<{word}>" for word in words) or "<>"
    assert (done.returncode, done.stdout.decode(), done.stderr) == (3, shown, b"")
