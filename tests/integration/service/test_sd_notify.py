"""What systemd hears of `mirage serve`: that it is ready, that its worker gets on, that it ends."""

import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirage.service import sd_notify
from mirage.service.sd_notify import Notifier
from tests.support import patient
from tests.support.mirage_process import QuietSlurm, configured, run, serving, wait_for_call

WATCHDOG_S = 1.0


class Systemd:
    """The socket that a service of Type=notify is told of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(patient.PATIENCE_S)

    def hear(self) -> str:
        """The next message; raises TimeoutError."""
        return self._socket.recv(4096).decode()

    def wait_for(self, word: str) -> str:
        deadline = time.monotonic() + patient.PATIENCE_S
        while word not in (said := self.hear()):
            assert time.monotonic() < deadline, f"{word} is not said"
        return said

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing more is said in that time; what was said before is dropped."""
        self._socket.setblocking(False)
        try:
            while True:
                self.hear()
        except BlockingIOError:
            self._socket.settimeout(seconds)
        try:
            self.hear()
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(patient.PATIENCE_S)
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    with closing(Systemd(tmp_path / "notify")) as listening:
        monkeypatch.setenv("NOTIFY_SOCKET", str(listening.path))
        monkeypatch.setenv("WATCHDOG_USEC", str(round(WATCHDOG_S * 1e6)))
        yield listening


@pytest.fixture
def brisk(tmp_path: Path) -> Path:
    path = configured(tmp_path)
    path.write_text(path.read_text().replace("[cluster]", "[cluster]\ncommand_timeout_s = 1"))
    assert run("db", "upgrade", "--config", str(path)).code == 0
    return path


def test_a_service_says_that_it_is_ready_alive_and_ending(
    systemd: Systemd, slurm: QuietSlurm, brisk: Path
) -> None:
    with serving(brisk, slurm) as service:
        assert f"STATUS=serving {service.wait_until_serving()}" in systemd.wait_for("READY=1")
        for _ in range(3):
            systemd.wait_for("WATCHDOG=1")
        assert service.end() == 0
        systemd.wait_for("STOPPING=1")


def test_a_slow_slurm_is_no_hanging(systemd: Systemd, slurm: QuietSlurm, brisk: Path) -> None:
    """Each question takes longer than the watchdog waits, and none is answered in time."""
    slurm.answers("squeue", seconds=200)
    with serving(brisk, slurm) as service:
        # Three times the longest that one question may take, so that no answer is waited for.
        assert systemd.wait_for("WATCHDOG_USEC=") == "WATCHDOG_USEC=3000000"
        wait_for_call(slurm, "squeue")
        began = time.monotonic()
        for _ in range(3):
            systemd.wait_for("WATCHDOG=1")
            # Far less than Slurm's silence, and room for a busy machine.
            assert time.monotonic() - began < 60.0
            began = time.monotonic()
        assert service.end() == 0


def test_a_worker_that_hangs_is_not_said_to_be_alive(
    systemd: Systemd, slurm: QuietSlurm, brisk: Path
) -> None:
    """It waits for the database, which another process keeps; the API answers all the while."""
    brisk.write_text(f"{brisk.read_text()}[polling]\nqueue_s = 1\n")
    with serving(brisk, slurm) as service:
        url = service.wait_until_serving()
        systemd.wait_for("WATCHDOG=1")
        with closing(sqlite3.connect(brisk.parent / "state" / "mirage.db")) as database:
            database.execute("BEGIN IMMEDIATE")
            time.sleep(2 * WATCHDOG_S)  # a tick begins in this time, and waits
            assert systemd.silent_for(2 * WATCHDOG_S)
            assert patient.get(f"{url}/healthz").status_code == 200
            database.rollback()
        systemd.wait_for("WATCHDOG=1")
        assert service.end() == 0


def test_what_systemd_asked_of_another_process_is_not_done(tmp_path: Path) -> None:
    with closing(Systemd(tmp_path / "notify")) as listening:
        asked = {"NOTIFY_SOCKET": str(listening.path), "WATCHDOG_USEC": "1000000"}
        sd_notify.from_environment(asked | {"WATCHDOG_PID": str(os.getpid() + 1)}).notify_alive()
        sd_notify.from_environment(asked | {"WATCHDOG_PID": str(os.getpid())}).notify_alive()
        assert listening.hear() == "WATCHDOG=1"
        assert listening.silent_for(0.05)


def test_signs_of_life_are_few(tmp_path: Path) -> None:
    instants = [0.0, 0.5, 0.9, 1.0]
    with closing(Systemd(tmp_path / "notify")) as listening:
        notifier = Notifier(str(listening.path), 8.0, clock=iter(instants).__next__)
        for _ in instants:
            notifier.notify_alive()
        assert [listening.hear(), listening.hear()] == ["WATCHDOG=1"] * 2
        assert listening.silent_for(0.05)


def test_without_systemd_nothing_is_sent_and_nothing_fails(tmp_path: Path) -> None:
    for notifier in (sd_notify.from_environment({}), Notifier(str(tmp_path / "gone"), 1.0)):
        notifier.notify_ready("here")
        notifier.notify_alive()
        notifier.extend_watchdog(15)
        notifier.notify_stopping()
