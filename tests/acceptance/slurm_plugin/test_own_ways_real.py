"""Scripts with ways of their own on the real Slurm: groups, counters, words against the next link.

And the chain's directory and the site's sbatch, which have ways of their own, too.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from tests.support.slurm_plugin.lone_alice import LINK, Alice

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


def is_alive(pid: str) -> bool:
    """Return False of a zombie, too: in a copy of the host nobody takes those away."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def submit(alice: Alice, *words: str, links: int) -> None:
    """With the plugin on PATH in the job, too."""
    done = alice.sbatch(f"--mirage-chain={links}", *words, "link.sh")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("links", [0, 1])
def test_a_warned_script_has_its_process_group_save(alice: Alice, links: int) -> None:
    alice.write("link.sh", GROUP)
    done = alice.sbatch(*([f"--mirage-chain={links}"] if links else []), "link.sh")
    job = int(done.stdout.split()[3])
    alice.until((alice.home / "ready").exists, "the trainer")
    alice.run("scancel", "--batch", "--signal=USR1", str(job))
    alice.until(lambda: alice.state(job) in ("COMPLETED", "FAILED"), "its end")
    alice.until(lambda: "trainer: saved" in alice.output(), f"its word, not {alice.output()}")
    assert alice.output()[:2] == ["warned, saving", "trainer: saved"]


def test_scancel_ends_a_script_of_its_own_group_whole(alice: Alice) -> None:
    alice.write("link.sh", HEAD + "trap '' TERM\nsleep 321 &\necho $! $$ >pids\nwait; sleep 322\n")
    submit(alice, links=2)
    alice.until((alice.home / "pids").exists, "the script")
    alice.run("scancel", str(alice.job(1)))
    pids = (alice.home / "pids").read_text().split()
    alice.until(lambda: not any(map(is_alive, pids)), "no process")
    alice.await_empty_queue(40)
    assert alice.says("started/2") is None


@pytest.mark.parametrize("body", [BY_OPTION, BY_VARIABLE], ids=["by option", "by variable"])
@pytest.mark.parametrize("words", [(), ("--mirage-presubmit=all",)], ids=["next", "all"])
def test_each_link_has_the_state_that_the_one_before_it_gave_sbatch(
    alice: Alice, body: str, words: tuple[str, ...]
) -> None:
    alice.write("link.sh", HEAD + STATE + body)
    submit(alice, *words, links=3)
    alice.until(lambda: alice.says("ends/3") is not None, f"link 3, not {alice.output()}", 90)
    assert (alice.home / "parts.log").read_text().split("\n") == ["part 1", "part 2", "part 3", ""]


@pytest.mark.parametrize("program", ["scancel", "/usr/bin/scancel"])
def test_a_script_that_cancels_its_next_link_has_two_steps(alice: Alice, program: str) -> None:
    alice.write("link.sh", HEAD + CANCELS.format(program))
    submit(alice, links=6)
    alice.until(lambda: alice.says("ends/2") is not None, "link 2", 60)
    alice.await_empty_queue(60)
    assert (alice.home / "steps").read_text() == "step\nstep\n"
    said = [line for line in alice.output() if "the chain is done" in line]
    assert len(said) == 1, alice.output()
    assert "no further link is wanted" in (alice.says("done") or "")


def test_a_standby_that_is_cancelled_from_elsewhere_is_made_anew(alice: Alice) -> None:
    own = LINK.replace("echo", "sbatch link.sh\necho", 1).replace("fi", "scancel 1; fi", 1)
    alice.write("link.sh", own + "true || scancel\n")
    submit(alice, links=2)
    second = alice.job(2)
    alice.until(lambda: len(alice.lines()) == 1, "link 1")
    alice.run("scancel", str(second))
    alice.let_end(1, 2)
    alice.until(lambda: alice.job(2) != second, "another job", 60)
    alice.until(lambda: alice.says("ends/2") is not None, "link 2", 60)


@pytest.mark.parametrize("what", ["ro", "nr_inodes=1"])
def test_a_directory_that_takes_no_file_any_more_ends_no_chain(alice: Alice, what: str) -> None:
    state, entry = str(alice.home / "state"), pwd.getpwnam("alice")
    owner = f"uid={entry.pw_uid},gid={entry.pw_gid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", owner, "none", state], check=True)
    try:
        submit(alice, links=3)
        alice.until(lambda: len(alice.lines()) == 1, "link 1")
        alice.job(2)
        if what != "ro":
            what = f"nr_inodes={sum(len(d) + len(f) for _, d, f in os.walk(state)) + 1}"
        subprocess.run(["mount", "-o", f"remount,{what}", state], check=True)
        alice.let_end(1, 2, 3)
        alice.until(lambda: alice.lines()[-1] == "end 3", f"link 3, not {alice.output()}", 90)
        alice.await_empty_queue(60)
        said = [line for line in alice.output() if line not in alice.lines()]
        assert all(line.startswith("mirage: ") for line in said), said
        assert sum("cannot be written (" in line for line in said) == 2, said
        assert [line.split()[:2] for line in alice.lines()] == [
            [word, f"{link}"] for link in (1, 2, 3) for word in ("begin", "end")
        ]
    finally:
        subprocess.run(["umount", "--lazy", state], check=True)


def test_a_banner_of_the_sites_sbatch_is_no_job(alice: Alice) -> None:
    site = alice.home / "site"
    site.mkdir()
    (site / "sbatch").write_text(BANNER.format(real="/usr/bin/sbatch"))
    (site / "sbatch").chmod(0o755)
    done = alice.sbatch(
        "--mirage-chain=3", "link.sh", env={"MIRAGE_REAL_SBATCH": str(site / "sbatch")}
    )
    assert done.returncode == 0, done.stderr
    alice.until(lambda: len(alice.lines()) == 1, "link 1")
    second = alice.job(2)
    assert alice.testbed.job(second)["Dependency"].startswith("afterany:")
    assert not [line for line in alice.output() if "not in the queue" in line]
