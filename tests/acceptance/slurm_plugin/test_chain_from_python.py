"""The program of docs/use/chain-from-python.md, on the real Slurm."""

from __future__ import annotations

import os
import pwd
import re

import pytest

from tests.support.paths import DOCS
from tests.support.slurm_plugin.lone_alice import Alice

pytestmark = pytest.mark.slurm

TRAIN = """import os, pathlib, sys
assert sys.argv == ["train.py"], sys.argv
steps = pathlib.Path("checkpoints", "steps")
done = len(steps.read_text()) if steps.exists() else 0
steps.parent.mkdir(exist_ok=True)
steps.write_text("." * (done + 1))
print("step", done + 1, flush=True)
if done < 1:
    raise SystemExit(0)
"""
"""A step for each link, and the work is done after two."""
PYTHON = "/usr/bin/python3"


def read_programs() -> list[str]:
    page = (DOCS / "use/chain-from-python.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def write_for(alice: Alice, name: str, text: str) -> None:
    alice.write(name, text)
    entry = pwd.getpwnam("alice")
    os.chown(alice.home / name, entry.pw_uid, entry.pw_gid)


def test_the_program_of_the_page_trains_to_the_end(alice: Alice) -> None:
    program, end_of_training = read_programs()[:2]
    write_for(alice, "train.py", TRAIN + end_of_training)
    write_for(alice, "submit.py", f"import sys\nsys.path.insert(0, 'plugin')\n{program}")
    printed = alice.run(PYTHON, "submit.py").splitlines()
    first = int((alice.says("started/1") or "").split()[0])
    assert printed[0] == f"{alice.chain.name} active [{first}]"
    assert printed[1] == f"chain {alice.chain.name} is finished"
    assert f"link 2 (job {alice.job(2)}): exit 0" in printed
    logs = sorted(alice.home.glob("*.log"))
    assert [log.read_text().splitlines()[-1] for log in logs][:2] == ["step 1", "step 2"]
    assert (alice.home / "checkpoints/steps").read_text() == "..", "no third link has run"


def test_a_running_chain_is_cancelled_whole(alice: Alice) -> None:
    program = (
        "import sys, time; sys.path.insert(0, 'plugin'); import mirage_slurm\n"
        "chain = mirage_slurm.submit(['sleep', '3600'], chain=3, time=60, output='/dev/null')\n"
        "while [link.state for link in chain.links] != ['running', 'pending']: time.sleep(1)\n"
        "chain.cancel()\n"
        "print(chain.wait(), [link.end_state for link in chain.links][0])\n"
    )
    assert alice.run(PYTHON, "-c", program) == "cancelled CANCELLED\n"
    assert alice.run("squeue", "-h", "-u", "alice") == ""
