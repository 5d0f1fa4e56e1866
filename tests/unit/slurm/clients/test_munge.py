"""What is said of MUNGE where its commands answer wrongly, or not at all."""

import os
from pathlib import Path

import pytest

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.auth import munge as subject


def _command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "unmunge: Error: Failed to access socket" >&2; exit 6', "Failed to access socket"),
        ("exit 1", "exit code 1"),
        ("echo garbage", "exit code 0"),
    ],
)
def test_a_munged_in_trouble_is_not_the_callers_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    for name in ("munge", "unmunge"):
        _command(tmp_path, name, f"cat >/dev/null; {script}")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ClusterUnavailable, match=said):
        subject.authenticate_caller("MUNGE:AAAA:", "")
    with pytest.raises(ClusterUnavailable, match=said):
        subject.create_credential("")


def test_a_munged_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _command(tmp_path, "unmunge", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(subject, "TIMEOUT_S", 0.2)
    with pytest.raises(ClusterUnavailable, match=r"within 0\.2 s"):
        subject.authenticate_caller("MUNGE:AAAA:", "")
