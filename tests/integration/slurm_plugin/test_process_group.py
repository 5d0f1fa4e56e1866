"""A link's script leads a process group of its own, as slurmstepd starts a script."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.patient import wait_until
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

GROUP = "read -r _ _ _ _ group _ </proc/self/stat\n"
LEADS = f'#!/bin/sh\n{GROUP}[ "$group" = "$$" ] && echo leads\n'
WARNED = """#!/bin/bash
trap 'trap - TERM; echo warned; kill -TERM -- -$$' USR1
sh -c 'trap "echo saved; exit" TERM; touch $HOME/ready; while :; do sleep 0.05; done' &
wait; wait
"""
ENDS_ITS_GROUP = '#!/bin/sh\ntrap "" TERM\nkill -TERM 0\necho "goes on"; exit 3\n'
STOPS = "#!/bin/sh\necho $$ >$HOME/pid; touch $HOME/ready; kill -STOP $$; exit 4\n"

Make = Callable[[str], Link]


@pytest.fixture
def make(slurm: FakeSlurm, shell: list[str]) -> Make:
    def submit(script: str) -> Link:
        slurm.script(script)
        return Link.submitted(slurm, shell, "--mirage-chain=2", "job.sh")

    return submit


def only_commands(slurm: FakeSlurm, *without: str) -> str:
    """A PATH of all of this host's commands but for those."""
    folder = slurm.root / "commands"
    folder.mkdir()
    for place in ("/usr/bin", "/bin", "/usr/sbin"):
        for path in Path(place).iterdir():
            if path.name not in without and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return slurm.environ["PATH"].replace("/usr/bin:/bin", str(folder))


def test_the_script_leads_a_process_group(make: Make) -> None:
    done = make(LEADS).run()
    assert (done.stdout, done.stderr, done.returncode) == (b"leads\n", b"", 0)


@pytest.mark.parametrize("without", [["setsid"], ["perl"]], ids=str)
def test_one_of_the_nodes_commands_is_enough_for_that(
    slurm: FakeSlurm, make: Make, without: list[str]
) -> None:
    link = make(LEADS)
    assert link.run(env={"PATH": only_commands(slurm, *without)}).stdout == b"leads\n"


def test_a_node_without_them_runs_the_script_all_the_same(slurm: FakeSlurm, make: Make) -> None:
    link = make("#!/bin/sh\nexit 5\n")
    done = link.run(env={"PATH": only_commands(slurm, "setsid", "perl")})
    assert (done.stderr, done.returncode) == (b"", 5)


def test_a_script_stays_in_the_group_by_which_slurm_knows_the_job(
    slurm: FakeSlurm, make: Make
) -> None:
    (slurm.root / "slurm.conf").write_text("ProctrackType = proctrack/pgid\n")
    done = make(LEADS).run(env={"SLURM_CONF": str(slurm.root / "slurm.conf")})
    assert (done.stdout, done.returncode) == (b"", 1)


def test_a_warned_script_has_its_own_processes_save(slurm: FakeSlurm, make: Make) -> None:
    link = make(WARNED)
    process = link.start()
    wait_until((slurm.root / "home" / "ready").exists, "the script's own process")
    process.send_signal(signal.SIGUSR1)  # as scancel --batch --signal=USR1
    out, err = process.communicate(timeout=60)
    assert out == b"warned\nsaved\n"
    assert b"no such process" not in err.lower()
    assert link.end_of(1) == f"exit {process.returncode}", "the carrier has written the end"
    assert (link.chain / "jobs" / "2").exists()


def test_a_signal_for_the_scripts_group_is_none_for_the_carrier(make: Make) -> None:
    link = make(ENDS_ITS_GROUP)
    done = link.run()
    assert (done.stdout, done.returncode) == (b"goes on\n", 3)
    assert link.end_of(1) == "exit 3"
    assert "terminated" not in link.log()


def test_a_script_that_is_stopped_has_not_ended(slurm: FakeSlurm, make: Make) -> None:
    link = make(STOPS)
    process = link.start()
    home = slurm.root / "home"
    wait_until((home / "ready").exists, "the script")
    pid = int((home / "pid").read_text())
    wait_until(lambda: ") T " in Path(f"/proc/{pid}/stat").read_text(), "its stop")
    assert link.end_of(1) is None
    os.kill(pid, signal.SIGCONT)
    process.communicate(timeout=60)
    assert (process.returncode, link.end_of(1)) == (4, "exit 4")
