"""MUNGE credentials, by the real daemon."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from mirage.errors import NotIdentified
from mirage.slurm.clients.auth import munge as subject
from tests.support.patient import wait_until


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
    expired_s = time.time() + 2  # munged counts whole seconds
    wait_until(lambda: time.time() > expired_s)
    with pytest.raises(NotIdentified, match="has expired"):
        subject.authenticate_caller(made.stdout.decode().strip(), "")
