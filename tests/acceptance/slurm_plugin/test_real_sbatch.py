"""Chains that run with no service at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_testbed import OF_ONE_JOB, TestbedSettings

pytestmark = pytest.mark.slurm

FAST = TestbedSettings(speed=60)
CHAIN_JOB = """#!/bin/bash
#SBATCH --nodes=1 --time={minutes} --output=chain.out
echo "link $MIRAGE_LINK of $MIRAGE_LINKS job $SLURM_JOB_ID after ${{MIRAGE_PREV_JOBID:-none}}"
env -0 | sort -z >env.$MIRAGE_LINK
sleep {seconds}
echo "end $MIRAGE_LINK"
"""


def test_a_chain_runs_in_order_with_no_service(alice: Alice) -> None:
    alice.write("chain.sh", CHAIN_JOB.format(minutes=5, seconds=1))
    done = alice.sbatch("--mirage-chain=3", "chain.sh", env={"ODD": "a\nb"})
    assert done.stderr.count("\n") == 1
    alice.await_empty_queue(60)
    jobs = [alice.job(n) for n in (1, 2, 3)]
    assert alice.output() == [
        *[f"link 1 of 3 job {jobs[0]} after none", "end 1"],
        *[f"link 2 of 3 job {jobs[1]} after {jobs[0]}", "end 2"],
        *[f"link 3 of 3 job {jobs[2]} after {jobs[1]}", "end 3"],
        "mirage: all 3 links have run; nobody said that the work is done",
    ]
    for index, job in enumerate(jobs, 1):
        shown = alice.testbed.job(job)
        assert shown["Comment"].strip() == f"mirage:{alice.chain.name}:{index}"
        assert shown["JobName"] == "chain.sh"
        assert shown["WorkDir"] == str(alice.home)
    first, third = (_environment(alice.home / f"env.{n}") for n in (1, 3))
    differ = {name for name in first.keys() | third.keys() if first.get(name) != third.get(name)}
    assert differ <= {
        *("MIRAGE_LINK", "MIRAGE_PREV_JOBID", "MIRAGE_PREV_STATE", "MIRAGE_RESUME"),
        *("MIRAGE_DEADLINE", "SLURM_JOB_ID", "SLURM_JOBID"),
        *("SLURM_JOB_DEPENDENCY", "SLURM_OPEN_MODE", "SLURM_TASK_PID", "TMPDIR", "_"),
        *OF_ONE_JOB,
    }


def _environment(path: Path) -> dict[str, str]:
    entries = path.read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def test_scancel_of_the_running_link_ends_the_chain(alice: Alice) -> None:
    alice.write("chain.sh", CHAIN_JOB.format(minutes=5, seconds=60))
    alice.sbatch("--mirage-chain=4", "chain.sh")
    alice.testbed.wait_until(lambda: len(alice.output()) == 1, 30, "link 1")
    second = alice.job(2)
    alice.testbed.run(["scancel", str(alice.job(1))], user="alice")
    alice.await_empty_queue(60)
    assert [line for line in alice.output() if line.startswith("link")] == [
        f"link 1 of 4 job {alice.job(1)} after none"
    ]
    assert "mirage: link 1 was cancelled; the script is not run" in alice.output()
    assert (alice.chain / "ends" / "1").read_text() == "cancelled\n"
    assert alice.testbed.state(second) == "COMPLETED"
    assert not (alice.chain / "jobs" / "3").exists()
    assert alice.says("started/2") is None


@testbed_with(FAST)
def test_a_link_that_meets_its_time_limit_is_followed(alice: Alice) -> None:
    alice.write("chain.sh", CHAIN_JOB.format(minutes=1, seconds=600))
    alice.sbatch("--mirage-chain=2", "chain.sh")
    alice.testbed.wait_until((alice.chain / "started" / "2").exists, 600, "link 2")
    assert alice.testbed.state(alice.job(1)) == "TIMEOUT"
    assert (alice.chain / "ends" / "1").read_text() == "timeout\n"


def test_a_heterogeneous_job_is_a_chain_too(alice: Alice) -> None:
    alice.write("chain.sh", CHAIN_JOB.format(minutes=5, seconds=1))
    assert alice.sbatch("--mirage-chain=2", "-N1", ":", "-N1", "chain.sh").returncode == 0
    alice.await_empty_queue(60)
    assert [line.split(" job")[0] for line in alice.output()] == [
        *["link 1 of 2", "end 1", "link 2 of 2", "end 2"],
        "mirage: all 2 links have run; nobody said that the work is done",
    ]


def test_done_takes_the_standby_back(alice: Alice) -> None:
    text = "#!/bin/sh\n#SBATCH --time=5 --output=/dev/null\n{home}/plugin/mirage-link done\n"
    alice.write("done.sh", text.format(home=alice.home))
    alice.sbatch("--mirage-chain=3", "done.sh")
    alice.await_empty_queue(60)
    assert alice.testbed.state(alice.job(2)) == "CANCELLED"
    assert alice.says("started/2") is None
