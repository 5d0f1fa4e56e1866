"""The simulator gives thousands of seeded cases the answers that a brute-force simulator, written
from docs/reference/simulator.md alone, gave them too, until it left the tree (decision 0010)."""

import json
import os
import subprocess
import sys

import pytest

from tests.integration.simulator.frozen_cases import DIGESTS, FIRST_CASES, PARTS, compute_digest
from tests.support.paths import CHECKOUT

FROZEN: dict[str, str] = json.loads(DIGESTS.read_text())


@pytest.mark.parametrize("part", PARTS)
def test_the_answers_are_those_that_were_frozen(part: str) -> None:
    assert compute_digest(PARTS[part]()) == FROZEN[part]


def test_no_answer_was_frozen_for_nothing() -> None:
    assert FROZEN.keys() == PARTS.keys()


def test_the_same_functions_run_as_plain_python() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.integration.simulator.frozen_cases", FIRST_CASES]
    run = subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True
    )
    assert compute_digest(run.stdout.splitlines()) == FROZEN[FIRST_CASES]
