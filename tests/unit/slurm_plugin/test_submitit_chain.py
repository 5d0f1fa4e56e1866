"""A job of submitit as a chain: with the lines of the page each link finds its function's file."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.paths import DOCS
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

SCRIPT = """#!/bin/bash

# Parameters
#SBATCH --comment={comment}
#SBATCH --job-name=submitit
#SBATCH --nodes=1
#SBATCH --open-mode=append
#SBATCH --output=/home/alice/runs/%j_0_log.out
#SBATCH --signal=USR2@90
#SBATCH --time=2880
#SBATCH --wckey=submitit

# setup
{setup}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /home/alice/runs/%j_%t_log.out python3 -u -m submitit.core._submit runs


# teardown
{teardown}"""
"""As submitit 1.5.4 writes it."""

SRUN = """#!/bin/sh
file=runs/${{SLURM_JOB_ID}}_submitted.pkl
cat "$file" || exit 2
echo "saved by $SLURM_JOB_ID" >"$file"
[ "$SLURM_JOB_ID" = 102 ]
"""
"""Loads the function as `python -m submitit.core._submit` does. The first job saves it and fails,
as submitit does before the time limit with max_num_timeout=0; the second finishes."""


def read_parameters() -> dict[str, object]:
    """Return what the page gives to update_parameters."""
    page = (DOCS / "use/chain-from-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (call,) = (
        node
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "update_parameters"
    )
    return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}


@pytest.fixture
def submitit(slurm: FakeSlurm) -> FakeSlurm:
    parameters = read_parameters()
    setup, teardown = parameters["setup"], parameters["teardown"]
    assert isinstance(setup, list)
    assert isinstance(teardown, list)
    slurm.script(
        SCRIPT.format(
            comment=parameters["comment"], setup="\n".join(setup), teardown="\n".join(teardown)
        )
    )
    slurm.command("srun", SRUN)
    (slurm.root / "home/runs").mkdir()
    (slurm.root / "home/runs/101_submitted.pkl").write_text("submitted\n")
    return slurm


def test_a_later_link_goes_on_from_what_the_link_before_it_saved(submitit: FakeSlurm) -> None:
    link = Link.submitted(submitit, ["bash"], "job.sh")
    first, second = link.run(1), link.run(2)
    assert (first.stdout, first.returncode) == (b"submitted\n", 1)
    assert (second.stdout, second.returncode) == (b"saved by 101\n", 0)
    assert (link.chain / "done").exists()


def test_without_the_line_it_is_refused_in_a_sentence(submitit: FakeSlurm) -> None:
    script = submitit.root / "home/job.sh"
    lines = script.read_text().splitlines(keepends=True)
    script.write_text("".join(line for line in lines if "MIRAGE_PREV_JOBID" not in line))
    done = submitit.sbatch("job.sh")
    assert done.returncode == 1
    assert b"Hand the file on in `setup`, as docs/use/chain-from-python.md shows" in done.stderr
    assert submitit.calls() == []
