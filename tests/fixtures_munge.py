"""A munged of our own: the real daemon behind a socket that nothing else uses.

Its commands stand first on PATH, so what runs `munge` and `unmunge` speaks to it.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needed

_START_S = 20.0


@pytest.fixture(scope="session")
def munge_commands() -> Iterator[Path]:
    """The folder of the commands, which any user may run."""
    if "munge" in needed.missing():
        needed.absent("munged is not on this machine")
    folder = Path(tempfile.mkdtemp(prefix="mirage-munge-", dir="/tmp"))  # a socket's path is short
    folder.chmod(0o755)
    key, socket, commands = folder / "key", folder / "socket", folder / "bin"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    commands.mkdir()
    for name in ("munge", "unmunge"):
        script = commands / name
        script.write_text(f'#!/bin/sh\nexec {shutil.which(name)} --socket={socket} "$@"\n')
        script.chmod(0o755)
    places = [f"--{name}-file={folder / name}" for name in ("pid", "seed", "log")]
    # By force: a folder under /tmp is not where munged would have its secrets.
    command = ["munged", "--foreground", "--force", f"--socket={socket}", f"--key-file={key}"]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen([*command, *places], stdout=out, stderr=out)
    try:
        _wait(commands, process, folder / "out")
        yield commands
    finally:
        process.terminate()
        process.wait(_START_S)
        shutil.rmtree(folder)


@pytest.fixture
def munge(munge_commands: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`munge` and `unmunge` of this process are those of our own munged."""
    monkeypatch.setenv("PATH", f"{munge_commands}{os.pathsep}{os.environ['PATH']}")
    return munge_commands


def _wait(commands: Path, process: subprocess.Popen[bytes], out: Path) -> None:
    deadline = time.monotonic() + _START_S
    while subprocess.run([commands / "munge", "-n"], capture_output=True, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"munged did not start:\n{out.read_text(errors='replace')}")
        time.sleep(0.05)
