"""The real Slurm as a fixture (tests/conftest.py). Mark its tests `slurm`.

@pytest.mark.slurm
@testbed_with(TestbedSettings(speed=60), TestbedSettings(speed=60, priority="fairshare"))
def test_something(testbed: Testbed) -> None: ...
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests import needed
from tests.slurm_testbed import Testbed, TestbedSettings

_LOCK = Path("/run/mirage-testbed.tests")
_LOCK_PATIENCE_S = 240.0


def testbed_with(*settings: TestbedSettings) -> pytest.MarkDecorator:
    """Run a test once on a cluster of each of these settings."""
    return pytest.mark.parametrize("testbed", settings, indirect=True, ids=str)


testbed_with.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def slurm_host() -> Iterator[Testbed]:
    """This host's testbed, ours alone for the session; as it ends, up or down as it was."""
    if os.geteuid() != 0:
        needed.absent("the Slurm testbed starts daemons as several users: run as root")
    if not needed.installable() and shutil.which("slurmctld") is None:
        needed.absent("the Slurm testbed needs Debian's packages")
    testbed = Testbed()
    with _LOCK.open("w") as lock:
        _take(lock)
        was_up = testbed.is_up()
        yield testbed
        testbed.up() if was_up else testbed.down()


@pytest.fixture
def testbed(slurm_host: Testbed, request: pytest.FixtureRequest) -> Testbed:
    """A cluster with an empty queue: in real time with age priority unless parametrised.

    In fast time also without history: a service takes in that of the last days, chains and all.
    """
    settings = getattr(request, "param", TestbedSettings())
    slurm_host.up(settings, fresh=settings.speed > 1)
    slurm_host.cancel_all()
    return slurm_host


def _take(lock: IO[str]) -> None:
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                pytest.fail(f"another test run has held {_LOCK} for {_LOCK_PATIENCE_S:.0f} s")
            time.sleep(0.5)
        else:
            return
