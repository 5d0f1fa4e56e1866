"""Fake Slurm commands for the plugin's tests, and the real ones for those marked `slurm`."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.handover.scene import Scene
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.answering import Service, answering
from tests.support.slurm_plugin.conformance import SLOW_S, Babbler, Side, babbling
from tests.support.slurm_plugin.editable_chain import MakeChain, chains
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_plugin.planning import Planning
from tests.support.slurm_plugin.two_links import Pair, pairs
from tests.support.slurm_testbed import Testbed, TestbedSettings


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm.at(tmp_path)


@pytest.fixture
def service() -> Iterator[Service]:
    with answering() as server:
        yield server


@pytest.fixture(params=["dash", "bash --posix"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()


@pytest.fixture
def chain(slurm: FakeSlurm, shell: list[str]) -> Iterator[MakeChain]:
    yield from chains(slurm, shell)


@pytest.fixture
def pair(chain: MakeChain) -> Pair:
    return pairs(chain)


@pytest.fixture
def planning(slurm: FakeSlurm) -> Planning:
    return Planning.on(slurm)


@pytest.fixture
def alice(testbed: Testbed, tmp_path: Path) -> Iterator[Alice]:
    with Alice.at_home(testbed, tmp_path.name) as home:
        yield home


@pytest.fixture(scope="module")
def troubled() -> Iterator[tuple[Babbler, Babbler]]:
    """A service that answers after four minutes, and one that answers nonsense."""
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


# The hand-over: a chain's directory, the module, a link of the chain, and Slurm's word.


@pytest.fixture
def chain_dir(tmp_path: Path) -> Path:
    path = tmp_path / "chain"
    (path / "ends").mkdir(mode=0o700, parents=True)
    path.chmod(0o700)
    return path


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of the plugin by its name."""
    monkeypatch.syspath_prepend(PLUGIN)
    return importlib.import_module


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in (
        *("MIRAGE_DIR", "MIRAGE_DEADLINE", "MIRAGE_FLOOR", "MIRAGE_STYLE"),
        "SLURM_RESTART_COUNT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MIRAGE_HANDOVER_POLL_S", "0.01")
    monkeypatch.syspath_prepend(PLUGIN)
    return importlib.import_module("mirage_handover")


@pytest.fixture
def link(module: Any, chain_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(number: int, *, restart: int = 0, **arguments: Any) -> Any:
        monkeypatch.setenv("MIRAGE_LINK", str(number))
        monkeypatch.setenv("SLURM_JOB_ID", str(100 + number))
        monkeypatch.setenv("SLURM_RESTART_COUNT", str(restart))
        return module.Handover(str(chain_dir), **arguments)

    return make


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "squeue"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def says(text: str, *, stderr: str = "", code: int = 0) -> None:
        narrowed = '[ -z "$SQUEUE_STATES" ] || exit 0'
        answer = f"echo '{stderr}' >&2\nprintf '{text}'\nexit {code}"
        program.write_text(f"#!/bin/sh\n{narrowed}\n{answer}\n")
        program.chmod(0o755)

    return says
