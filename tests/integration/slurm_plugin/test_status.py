"""`mirage-link status`: how each link of a chain stands, and the list of a user's chains."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections.abc import Callable

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

SCRIPT = "#!/bin/sh\necho link $MIRAGE_LINK of $MIRAGE_LINKS\n"


@pytest.fixture
def make(slurm: FakeSlurm) -> Callable[..., Link]:
    def submit(*words: str, script: str = SCRIPT) -> Link:
        slurm.script(script)
        return Link.submitted(slurm, ["sh"], *(words or ("--mirage-chain=3", "job.sh")))

    return submit


def run_status(link: Link, *words: str) -> str:
    return subprocess.run(
        [PLUGIN / "mirage-link", "status", *words],
        check=True,
        capture_output=True,
        text=True,
        env=link.slurm.environ,
    ).stdout


def test_status_tells_the_links_so_far(make: Callable[..., Link]) -> None:
    link = make()
    link.run(1)
    assert (
        run_status(link, link.chain.name) == "link 1\tjob 101\texit 0\nlink 2\tjob 102\tstandby\n"
    )


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("JobHeldUser", "standby, held by its user (to go on: scontrol release 102)"),
        (
            "JobHeldAdmin",
            "standby, held by an admin or by Mirage's service (mirage chain show ID says more)",
        ),
        (
            "launch_failed_requeued_held",
            "standby, held (launch_failed_requeued_held; to go on: scontrol release 102)",
        ),
        (
            "JobHoldMaxRequeue",
            "standby, held (JobHoldMaxRequeue; to go on: scontrol release 102)",
        ),
        ("QOSMaxJobsPerUserLimit", "standby (QOSMaxJobsPerUserLimit)"),
        ("Dependency", "standby"),
    ],
)
def test_status_says_why_a_standby_is_held(
    make: Callable[..., Link], reason: str, end: str
) -> None:
    link = make()
    link.run(1)
    link.slurm.job_is(102, "PENDING", reason=reason)
    end = end.replace("ID", link.chain.name)
    assert f"link 2\tjob 102\t{end}\n" in run_status(link, link.chain.name)


def test_a_link_that_waited_and_was_requeued_no_longer_waits(make: Callable[..., Link]) -> None:
    link = make()
    link.run(1)
    (link.chain / "waits").mkdir(exist_ok=True)
    (link.chain / "waits" / "2").write_text("1 101\n")
    link.slurm.job_is(102, "PENDING", reason="launch_failed_requeued_held")
    status = run_status(link, link.chain.name)
    assert "link 2\tjob 102\tstandby, held (launch_failed_requeued_held; " in status


def test_a_link_that_ended_without_a_word_is_not_running(make: Callable[..., Link]) -> None:
    link = make()
    link.run(1)
    (link.chain / "ends" / "1").unlink()  # the node died
    link.slurm.job_is(101, "RUNNING")
    assert "link 1\tjob 101\trunning\n" in run_status(link, link.chain.name)
    queue = link.slurm.root / "queue"
    queue.write_text(re.sub("(?m)^101 .*\n", "", queue.read_text()))
    assert "link 1\tjob 101\tended without a word (sacct -j 101 may say how)\n" in run_status(
        link, link.chain.name
    )
    (link.slurm.root / "slurm.down").touch()
    assert "link 1\tjob 101\trunning (by its own files: squeue does not answer)\n" in run_status(
        link, link.chain.name
    )


def test_status_without_an_id_lists_the_chains(make: Callable[..., Link]) -> None:
    link = make("--mirage-chain=4", "job.sh")
    assert run_status(link) == f"{link.chain.name}\tjob.sh\tlink 0 of 4\tstandby\n"
    link.run(1)
    assert run_status(link) == f"{link.chain.name}\tjob.sh\tlink 1 of 4\texit 0\n"
    subprocess.run(
        [PLUGIN / "mirage-link", "stop", link.chain.name], check=True, env=link.slurm.environ
    )
    user = getpass.getuser()
    assert f"\tstop: by {user} with mirage-link stop, on " in run_status(link)
    assert f"stop\tby {user} with mirage-link stop, on " in run_status(link, link.chain.name)


def test_status_names_who_cancelled_a_link(
    make: Callable[..., Link],
) -> None:
    link = make()
    link.run(1)
    (link.chain / "ends" / "1").write_text("cancelled\n")
    assert "link 1\tjob 101\tcancelled\n" in run_status(link, link.chain.name)
    link.slurm.command("sacct", "#!/bin/sh\necho 'CANCELLED by 0'\n")
    assert "link 1\tjob 101\tcancelled by root\n" in run_status(link, link.chain.name)


def test_a_taken_back_link_is_no_standby(make: Callable[..., Link]) -> None:
    link = make(script="#!/bin/sh\ntouch $MIRAGE_DIR/done\n")
    link.run(1)
    assert "link 2\tjob 102\tnot in the queue\n" in run_status(link, link.chain.name)
    (link.slurm.root / "slurm.down").touch()
    status = run_status(link, link.chain.name)
    assert "link 2\tjob 102\tstandby\n" in status, "nobody knows better"


def test_a_chain_without_its_carrier_is_listed_without_an_error(
    make: Callable[..., Link],
) -> None:
    link = make()
    link.carrier.unlink()
    done = subprocess.run(
        [PLUGIN / "mirage-link", "status"], check=True, capture_output=True, env=link.slurm.environ
    )
    assert done.stdout.decode() == f"{link.chain.name}\t?\tlink 0 of ?\tstandby\n"
    assert done.stderr == b""
