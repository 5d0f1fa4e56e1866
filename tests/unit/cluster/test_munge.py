"""MUNGE credentials, by the real daemon; and what is said where there is none."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from mirage.cluster.auth import munge as subject
from mirage.errors import ClusterUnavailable, NotIdentified


@pytest.mark.usefixtures("munge")
@pytest.mark.parametrize("payload", ["POST /api/v1/chains 00ff", "", "two\n\nparagraphs\n"])
def test_what_is_made_is_read(payload: str) -> None:
    assert (
        subject.authenticate_caller(subject.create_credential(payload), payload).uid == os.geteuid()
    )


@pytest.mark.usefixtures("munge")
def test_a_second_reading_is_refused() -> None:
    made = subject.create_credential("once")
    subject.authenticate_caller(made, "once")
    with pytest.raises(NotIdentified, match="was used before"):
        subject.authenticate_caller(made, "once")


@pytest.mark.usefixtures("munge")
def test_another_payload_is_refused() -> None:
    with pytest.raises(NotIdentified, match="made for another request"):
        subject.authenticate_caller(subject.create_credential("this"), "that")


@pytest.mark.usefixtures("munge")
def test_an_expired_credential_is_refused(munge: Path) -> None:
    made = subprocess.run([munge / "munge", "-n", "-t", "1"], capture_output=True, check=True)
    time.sleep(2.5)
    with pytest.raises(NotIdentified, match="has expired"):
        subject.authenticate_caller(made.stdout.decode().strip(), "")


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
