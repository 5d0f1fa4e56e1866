"""A real Slurm, a service beside it, and alice's home: what every hand-over test starts from."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import Testbed


@pytest.fixture
def scene(testbed: Testbed) -> Iterator[Scene]:
    made = Scene.set_up(testbed)
    yield made
    made.strike()
    shutil.rmtree(Path(made.root), ignore_errors=True)
