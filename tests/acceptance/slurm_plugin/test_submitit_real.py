"""The job of submitit in docs/use/chain-from-python.md, on the real Slurm."""

from __future__ import annotations

import os
import pwd
import re
import subprocess

import pytest

from tests.support.paths import DOCS
from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_testbed import python_for_users

pytestmark = pytest.mark.slurm

TRAIN = """import os, pathlib, time
import submitit

class Train(submitit.helpers.Checkpointable):
    def __init__(self):
        self.jobs = []

    def __call__(self):
        job = os.environ["SLURM_JOB_ID"]
        self.jobs.append(int(job))
        pathlib.Path("begun." + job).touch()
        while len(self.jobs) < 2:
            time.sleep(0.1)
        return self.jobs
"""
"""Works until its warning in the first job that runs it, and is done in the second."""
HAND_ON = re.compile(r"^ *'\[ -z \"\$MIRAGE_PREV_JOBID.*\n", re.MULTILINE)


@pytest.fixture
def program(alice: Alice) -> str:
    """The page's program. submitit takes a job of ten minutes for one whose time is over."""
    page = (DOCS / "use/chain-from-python.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (block,) = [text for text in blocks if "submitit" in text]
    alice.write("train.py", TRAIN)
    os.chown(alice.home / "train.py", pwd.getpwnam("alice").pw_uid, -1)
    assert "time=2880" in block
    head = "import submitit\nfrom train import Train\n"
    return head + block.replace("time=2880", "time=9") + "print(job.job_id)\n"


def run_python(alice: Alice, program: str) -> subprocess.CompletedProcess[str]:
    python, environment = python_for_users()
    own = {
        "PATH": f"{alice.home}/plugin:{alice.testbed.env('alice')['PATH']}",
        "PYTHONPATH": f"{alice.home}:{environment['PYTHONPATH']}",
        "MIRAGE_STATE_DIR": f"{alice.home}/state",
        "MIRAGE_URL": "http://127.0.0.1:9",
    }
    return alice.testbed.run(
        [python, "-c", program], user="alice", check=False, cwd=alice.home, env=environment | own
    )


def test_the_second_link_goes_on_from_what_the_first_saved_at_its_warning(
    alice: Alice, program: str
) -> None:
    submitted = run_python(alice, program)
    assert submitted.returncode == 0, submitted.stderr
    first = int(submitted.stdout)
    alice.until((alice.home / f"begun.{first}").exists, "the function in the first link")
    second = alice.job(2)
    alice.testbed.run(["scancel", "--signal=USR2", str(first)], user="alice")
    alice.until(lambda: alice.says("done") is not None, "the end of the function")
    result = f"import submitit; print(submitit.SlurmJob('runs', '{second}').result())"
    printed = run_python(alice, result)
    assert printed.stdout == f"[{first}, {second}]\n", printed.stderr
    alice.await_empty_queue(60)


def test_without_the_line_that_hands_the_file_on_nothing_is_submitted(
    alice: Alice, program: str
) -> None:
    without, count = HAND_ON.subn("", program)
    assert count == 1
    refused = run_python(alice, without)
    assert refused.returncode != 0
    assert "Hand the file on in `setup`, as docs/use/chain-from-python.md shows" in refused.stderr
    assert alice.run("squeue", "-h", "-u", "alice") == ""
