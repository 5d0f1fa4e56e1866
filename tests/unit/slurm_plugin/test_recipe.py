"""What the wrapped sbatch leaves of a chain of mode submit; a job without words becomes a link."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm

SCRIPT = """#!/bin/bash
#SBATCH --time=30 -p gpu --mem=1G
#SBATCH --signal=B:USR1@60
env -0
printf '%s\\0' "arguments=$*"
"""
ASK = """
import sys
sys.path.insert(0, {plugin!r})
from mirage_wrapper import recipe, submission
submission._register_chain = lambda chain, job: print(recipe.build_recipe(chain))
from mirage_wrapper.main import main
sys.exit(main([{wrapper!r}] + sys.argv[1:]))
"""


def left(
    slurm: FakeSlurm, *words: str, script: str = SCRIPT, env: Mapping[str, str] | None = None
) -> Any:
    """What the chain of this call leaves."""
    slurm.script(script)
    ask = ASK.format(plugin=str(PLUGIN), wrapper=str(PLUGIN / "sbatch"))
    argv = ["/usr/bin/python3", "-IS", "-c", ask, "--mirage-chain=3", "--mirage-mode=submit"]
    done = subprocess.run(
        [*argv, *words],
        capture_output=True,
        text=True,
        cwd=slurm.root / "home",
        env=slurm.environ | dict(env or {}),
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1].replace("None", "null"))


def test_the_options_are_what_sbatch_would_make_of_the_call(slurm: FakeSlurm) -> None:
    given = {"SBATCH_TIMELIMIT": "40", "SBATCH_QOS": "high"}
    words = ["--mirage-total=2:00:00", "-t50", "--gres", "gpu:2", "--comment=my words", "-Q"]
    found = left(slurm, *words, "--begin=now", "--no-requeue", "job.sh", "x", env=given)
    assert found["options"] == {
        "time": "50",
        "partition": "gpu",
        "mem": "1G",
        "signal": "B:USR1@60",
        "qos": "high",
        "gres": "gpu:2",
        "requeue": "no",
        "open-mode": "append",
    }
    home = str(slurm.root / "home")
    assert (found["directory"], found["name"], found["comment"]) == (home, "job.sh", "my words")
    assert found["carrier"].startswith(f"{home}/.local/state/mirage/")
    assert "arguments" not in json.dumps(found)


@pytest.mark.parametrize(
    ("words", "script", "env"),
    [
        ((), "#!/bin/sh\n#SBATCH --dependency=afterok:7\n:\n", {}),
        ((), "#!/bin/sh\n#PBS -q long\n:\n", {}),
        (("--export=ALL,TOKEN=1",), "#!/bin/sh\n:\n", {}),
        ((), "#!/bin/sh\n#SBATCH --export=ALL,TOKEN=1\n:\n", {}),
        ((), "#!/bin/sh\n#SBATCH --mem=1G\n:\n", {"SBATCH_MEM_PER_CPU": "5"}),
        ((), "#!/bin/sh\n:\n", {"SBATCH_SOMETHING": "new"}),
        (("-J", "x" * 20000), "#!/bin/sh\n:\n", {}),
        (("-J", "\udcff"), "#!/bin/sh\n:\n", {}),
        (("-n1", ":", "-n1"), "#!/bin/sh\n:\n", {}),
    ],
    ids=[
        *["dependency", "pbs", "export", "its-export", "memory-twice", "unknown-variable"],
        *["too-long", "bytes", "het"],
    ],
)
def test_what_cannot_be_told_for_certain_is_not_left(
    slurm: FakeSlurm, words: tuple[str, ...], script: str, env: dict[str, str]
) -> None:
    assert left(slurm, *words, "job.sh", script=script, env=env) is None


@pytest.mark.parametrize("with_python", [True, False], ids=["python", "sh"])
def test_a_job_without_words_becomes_the_link(slurm: FakeSlurm, with_python: bool) -> None:
    """Its environment is the first submission's, with what Slurm gave the job before it."""
    slurm.script(SCRIPT)
    own = {"MARK": "a b\n'c", "CUDA_VISIBLE_DEVICES": "9", "EMPTY": ""}
    done = slurm.sbatch("--mirage-chain=3", "--mirage-mode=submit", "job.sh", "x y", "$z", env=own)
    assert done.returncode == 0, done.stderr
    (chain,) = slurm.chains()
    (carrier,) = (chain / "carrier").iterdir()
    if not with_python:
        text = carrier.read_bytes()
        carrier.write_bytes(text.replace(b"/usr/bin/python3", b"/usr/bin/pythonX"))
    job = {"SLURM_JOB_ID": "102", "HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
    job |= {"CUDA_VISIBLE_DEVICES": "0"} if with_python else {}
    ran = subprocess.run(
        ["/bin/sh", carrier, f"enter:{chain.name}:2"],
        env=job,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    entries = dict(entry.split("=", 1) for entry in ran.stdout.split("\0")[:-1])
    assert entries["arguments"] == "x y $z"
    assert (entries["MIRAGE_LINK"], entries["MARK"], entries["EMPTY"]) == ("2", own["MARK"], "")
    assert (entries["HOME"], entries["PATH"]) == (slurm.environ["HOME"], slurm.environ["PATH"])
    assert entries["CUDA_VISIBLE_DEVICES"] == ("0" if with_python else "9")
    assert (chain / "started" / "2").read_text() == "102\n"


def test_what_sbatch_told_the_first_link_of_launchers_the_later_ones_see(slurm: FakeSlurm) -> None:
    """slurmrestd tells none of it; the user's own goes before."""
    slurm.script(SCRIPT)
    own = {"PRTE_MCA_plm_slurm_args": "--my own"}
    done = slurm.sbatch("--mirage-chain=3", "--mirage-mode=submit", "job.sh", env=own)
    assert done.returncode == 0, done.stderr
    (chain,) = slurm.chains()
    (carrier,) = (chain / "carrier").iterdir()
    told = {"OMPI_MCA_plm_slurm_args": "--external-launcher", "SLURM_TRES_PER_TASK": "cpu=2"}
    first = {**slurm.environ, **own, **told, "SLURM_JOB_ID": "101"}
    second = {"SLURM_JOB_ID": "102", "HOME": "/nowhere", "PATH": "/usr/bin:/bin"}
    for words, env in ((f"mirage:{chain.name}:1", first), (f"enter:{chain.name}:2", second)):
        ran = subprocess.run(
            ["/bin/sh", carrier, words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        entries = dict(entry.split("=", 1) for entry in ran.stdout.split("\0")[:-1])
        assert {name: entries.get(name) for name in (*told, *own)} == told | own
    assert "HYDRA_BOOTSTRAP" not in entries


def test_a_requeue_of_another_kind_keeps_its_kind(slurm: FakeSlurm) -> None:
    found = left(slurm, "--mirage-chain=3", "--requeue=expedite", "job.sh")
    assert found["options"]["requeue"] == "expedite"
