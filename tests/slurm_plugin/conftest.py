"""Fake Slurm commands for the plugin's tests, and the real ones for those marked `slurm`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.handover.scene import Scene
from tests.slurm_plugin.conformance import SLOW_S, Babbler, Side, babbling
from tests.slurm_plugin.fakes import FakeSlurm, Link
from tests.slurm_testbed import Testbed, TestbedSettings


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm.at(tmp_path)


@pytest.fixture(params=["dash", "bash --posix"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()


@pytest.fixture
def chain(slurm: FakeSlurm, shell: list[str]) -> Iterator[Callable[..., Link]]:
    """Submit a chain of `links` links of `script`, with these settings in its head."""

    made: list[Link] = []

    def submit(script: str = "#!/bin/sh\necho ran\n", *, links: int = 9, **head: object) -> Link:
        slurm.script(script)
        link = Link.submitted(slurm, shell, f"--mirage-chain={links}", "job.sh")
        link.told(**head)
        made.append(link)
        return link

    yield submit
    for link in made:
        link.strike()


@pytest.fixture(scope="module")
def troubled() -> Iterator[tuple[Babbler, Babbler]]:
    """A service that answers after ten seconds, and one that answers nonsense."""
    with babbling(SLOW_S) as slow, babbling(0.0) as garbage:
        yield slow, garbage


@pytest.fixture(scope="module")
def side(slurm_host: Testbed, troubled: tuple[Babbler, Babbler]) -> Iterator[Side]:
    slurm_host.up(TestbedSettings(), fresh=True)
    scene = Scene.set_up(slurm_host)
    try:
        yield Side.set_up(scene, *troubled)
    finally:
        scene.strike()
        shutil.rmtree(scene.root, ignore_errors=True)
