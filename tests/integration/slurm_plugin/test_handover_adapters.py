"""The adapters with the real libraries, on CPU: link 2 asks, link 1 lets go, no step is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.paths import SUPPORT
from tests.support.slurm_plugin.counted_chain import Chain

pytestmark = pytest.mark.slow

PROGRAM = SUPPORT / "slurm_plugin" / "adapted_link.py"
STEPS, GATE = 24, 20
LIBRARIES = ["torch", "lightning", "transformers", "torch with two ranks"]
RANKS = "-m torch.distributed.run --nproc-per-node=2 --master-port=$((29500 + MIRAGE_LINK))"


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_adapter_hands_over_and_loses_no_step(library: str, tmp_path: Path) -> None:
    library, _, several = library.partition(" with ")
    chain = Chain(tmp_path)
    script = f"exec {sys.executable} {RANKS if several else ''} {PROGRAM} {library}"
    home = {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    try:
        chain.start(1, script=script, **home)
        chain.wait(lambda: len(chain.lines("step")) > 0, "the first step")
        chain.start(2, script=script, **home)
        chain.wait(lambda: all(chain.over(link) for link in (1, 2)), "both links' ends")
    finally:
        chain.strike()
    assert [chain.links[link].returncode for link in (1, 2)] == [0, 0], chain.story()
    lines = chain.lines("step")
    assert [step for _, _, step in lines] == list(range(1, STEPS + 1)), chain.story()
    assert GATE <= chain.steps_of(1) < STEPS
    assert chain.steps_of(1) + chain.steps_of(2) == STEPS
    assert chain.done
    assert float((tmp_path / "weight").read_text()) == STEPS
