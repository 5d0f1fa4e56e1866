"""Fake Slurm commands for the plugin's tests, and the real ones for those marked `slurm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.fakes import FakeSlurm, Link


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
