"""A user without an admin: the small wheel, one line, and a chain on the real Slurm."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.lone_alice import Alice

pytestmark = pytest.mark.slurm

MOST_BYTES = 1_000_000
PYTHON = "/usr/bin/python3"


@pytest.fixture
def wheel(alice: Alice, tmp_path: Path) -> Path:
    copy = tmp_path / "slurm_plugin"
    shutil.copytree(PLUGIN, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so", "dist"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    entry = pwd.getpwnam("alice")
    path = Path(shutil.copy(built, alice.home))
    os.chown(path, entry.pw_uid, entry.pw_gid)
    return path


def test_the_small_wheel_and_one_line_run_a_chain(alice: Alice, wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES

    def shell(line: str) -> str:
        """What she types, with the lines of her profile so far."""
        typed = f"HOME={alice.home}; [ ! -e profile ] || . ./profile\n{line}"
        words = ["bash", "-c", typed]
        return alice.testbed.run(words, user="alice", cwd=alice.home, env={}).stdout

    shell(f"{PYTHON} -m venv mirage")
    shell(f"mirage/bin/pip install --quiet --no-index {wheel}")
    shell("mirage/bin/mirage plugin path --shell bash >> profile")
    assert len((alice.home / "profile").read_text().splitlines()) == 1
    (folder,) = (alice.home / "mirage").glob("lib/python3*/site-packages/mirage_slurm_plugin")
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    assert sum(sizes) < 2 * MOST_BYTES, "with the bytecode that pip made"

    told = shell("sbatch --mirage-chain=2 link.sh")
    first = int(told.split()[-1])
    alice.await_lines("begin 1 after nothing")
    (chain,) = json.loads(shell("mirage chain list --json"))
    assert (chain["state"], chain["links_started"], chain["links_planned"]) == ("active", 1, 2)
    assert chain["running"] == [first]
    shown = json.loads(shell(f"mirage chain show {first} --json"))
    facts = [(link["index"], link["job_id"], link["state"]) for link in shown["links"]]
    second = facts[1][1]
    assert facts == [(1, first, "running"), (2, second, "pending")]
    assert (shown["links"][1]["reason"], shown["stale"]) == ("Dependency", False)
    shell("mirage chain pause " + chain["chain_id"])
    assert alice.testbed.job(second)["JobState"] == "PENDING"
    assert alice.testbed.job(second)["Reason"] == "JobHeldUser"
    shell("mirage chain resume " + chain["chain_id"])
    alice.until(lambda: alice.testbed.job(second)["Reason"] != "JobHeldUser", "the release")
    assert f"job {second}, {first} is cancelled" in shell(
        "mirage chain cancel " + chain["chain_id"]
    )
    alice.until(lambda: not shell("squeue -h -u alice"), "an empty queue")
    assert alice.lines() == ["begin 1 after nothing"]
    (chain,) = json.loads(shell("mirage chain list --json"))
    assert chain["state"] == "cancelled"
