"""Scripts with ways of their own on the real Slurm: groups, counters, words against the next link.

And the chain's directory and the site's sbatch, which have ways of their own, too.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_plugin.lone_alice import LINK, Alice
from tests.support.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm

HEAD = "#!/bin/bash\n#SBATCH --time=5 --output=chain.out --open-mode=append\n"
GROUP = (
    HEAD
    + """trap 'trap - TERM; echo "warned, saving"; kill -TERM -- -$$' USR1
python3 -u -c '
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("trainer: saved"), sys.exit(0)))
open("ready", "w").close(); time.sleep(60); print("trainer: never told to save")' &
wait; wait
"""
)
STATE = """part=${PART:-1}
echo "part $part" >>parts.log
"""
BY_OPTION = """[ "$part" -ge 3 ] ||
    sbatch --export=ALL,PART=$((part + 1)) -d afterany:$SLURM_JOB_ID link.sh
"""
BY_VARIABLE = '[ "$part" -ge 3 ] || { export PART=$((part + 1)); sbatch link.sh; }\n'
CANCELS = """next=$(sbatch --parsable -d afterany:$SLURM_JOB_ID link.sh)
echo step >>steps
if [ "$(wc -l <steps)" -ge 2 ]; then {} "$next"; fi
"""
BANNER = """#!/bin/sh
echo "4 nodes are down"; echo 7
real={real}
exec $real "$@"
"""


@pytest.fixture
def scene(testbed: Testbed, tmp_path: Path) -> Iterator[Alice]:
    with Alice.at_home(testbed, tmp_path.name) as made:
        yield made


def submit(scene: Alice, *words: str, links: int) -> None:
    """With the plugin on PATH in the job, too."""
    done = scene.sbatch(f"--mirage-chain={links}", *words, "link.sh")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("links", [0, 1])
def test_a_warned_script_has_its_process_group_save(scene: Alice, links: int) -> None:
    scene.write("link.sh", GROUP)
    done = scene.sbatch(*([f"--mirage-chain={links}"] if links else []), "link.sh")
    job = int(done.stdout.split()[3])
    scene.until((scene.home / "ready").exists, "the trainer")
    scene.run("scancel", "--batch", "--signal=USR1", str(job))
    scene.until(lambda: scene.state(job) in ("COMPLETED", "FAILED"), "its end")
    scene.until(lambda: "trainer: saved" in scene.output(), f"its word, not {scene.output()}")
    assert scene.output()[:2] == ["warned, saving", "trainer: saved"]


def test_scancel_ends_a_script_of_its_own_group_whole(scene: Alice) -> None:
    scene.write("link.sh", HEAD + "trap '' TERM\nsleep 321 &\necho $! $$ >pids\nwait; sleep 322\n")
    submit(scene, links=2)
    scene.until((scene.home / "pids").exists, "the script")
    scene.run("scancel", str(scene.job(1)))
    pids = (scene.home / "pids").read_text().split()
    scene.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "no process")
    scene.await_empty_queue(40)
    assert scene.says("started/2") is None


@pytest.mark.parametrize("body", [BY_OPTION, BY_VARIABLE], ids=["by option", "by variable"])
@pytest.mark.parametrize("words", [(), ("--mirage-presubmit=all",)], ids=["next", "all"])
def test_each_link_has_the_state_that_the_one_before_it_gave_sbatch(
    scene: Alice, body: str, words: tuple[str, ...]
) -> None:
    scene.write("link.sh", HEAD + STATE + body)
    submit(scene, *words, links=3)
    scene.until(lambda: scene.says("ends/3") is not None, f"link 3, not {scene.output()}", 90)
    assert (scene.home / "parts.log").read_text().split("\n") == ["part 1", "part 2", "part 3", ""]


@pytest.mark.parametrize("program", ["scancel", "/usr/bin/scancel"])
def test_a_script_that_cancels_its_next_link_has_two_steps(scene: Alice, program: str) -> None:
    scene.write("link.sh", HEAD + CANCELS.format(program))
    submit(scene, links=6)
    scene.until(lambda: scene.says("ends/2") is not None, "link 2", 60)
    scene.await_empty_queue(60)
    assert (scene.home / "steps").read_text() == "step\nstep\n"
    said = [line for line in scene.output() if "the chain is done" in line]
    assert len(said) == 1, scene.output()
    assert "no further link is wanted" in (scene.says("done") or "")


def test_a_standby_that_is_cancelled_from_elsewhere_is_made_anew(scene: Alice) -> None:
    own = LINK.replace("echo", "sbatch link.sh\necho", 1).replace("fi", "scancel 1; fi", 1)
    scene.write("link.sh", own + "true || scancel\n")
    submit(scene, links=2)
    second = scene.job(2)
    scene.until(lambda: len(scene.lines()) == 1, "link 1")
    scene.run("scancel", str(second))
    scene.let_end(1, 2)
    scene.until(lambda: scene.job(2) != second, "another job", 60)
    scene.until(lambda: scene.says("ends/2") is not None, "link 2", 60)


@pytest.mark.parametrize("what", ["ro", "nr_inodes=1"])
def test_a_directory_that_takes_no_file_any_more_ends_no_chain(scene: Alice, what: str) -> None:
    state, entry = str(scene.home / "state"), pwd.getpwnam("alice")
    owner = f"uid={entry.pw_uid},gid={entry.pw_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", owner, "none", state], check=True)
    try:
        submit(scene, links=3)
        scene.until(lambda: len(scene.lines()) == 1, "link 1")
        scene.job(2)
        if what != "ro":
            what = f"nr_inodes={sum(len(d) + len(f) for _, d, f in os.walk(state)) + 1}"
        subprocess.run(["mount", "-o", f"remount,{what}", state], check=True)
        scene.let_end(1, 2, 3)
        scene.until(lambda: scene.lines()[-1] == "end 3", f"link 3, not {scene.output()}", 90)
        scene.await_empty_queue(60)
        said = [line for line in scene.output() if line not in scene.lines()]
        assert all(line.startswith("mirage: ") for line in said), said
        assert sum("cannot be written (" in line for line in said) == 2, said
        assert [line.split()[:2] for line in scene.lines()] == [
            [word, f"{link}"] for link in (1, 2, 3) for word in ("begin", "end")
        ]
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


def test_a_banner_of_the_sites_sbatch_is_no_job(scene: Alice) -> None:
    site = scene.home / "site"
    site.mkdir()
    (site / "sbatch").write_text(BANNER.format(real="/usr/bin/sbatch"))
    (site / "sbatch").chmod(0o755)
    done = scene.sbatch(
        "--mirage-chain=3", "link.sh", env={"MIRAGE_REAL_SBATCH": str(site / "sbatch")}
    )
    assert done.returncode == 0, done.stderr
    scene.until(lambda: len(scene.lines()) == 1, "link 1")
    second = scene.job(2)
    assert scene.testbed.job(second)["Dependency"].startswith("afterany:")
    assert not [line for line in scene.output() if "not in the queue" in line]
