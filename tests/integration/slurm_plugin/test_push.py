"""The epilog that tells Mirage of ends: what it says, and that slurmctld never waits for it."""

from __future__ import annotations

import base64
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mirage.domain.callers.request_signing import build_signed_text
from tests.support import patient
from tests.support.paths import PLUGIN
from tests.support.patient import wait_until

HOOK = PLUGIN / "hooks" / "mirage-push"


class Service:
    """Hears what is posted; answers after `slow_s`."""

    def __init__(self, slow_s: float) -> None:
        self.heard: list[tuple[str, str, str]] = []
        self.most_at_once = 0
        self._at_once, self._lock = 0, threading.Lock()
        self.over = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                with service._lock:
                    service._at_once += 1
                    service.most_at_once = max(service.most_at_once, service._at_once)
                    service.heard.append((self.path, body, self.headers["Authorization"]))
                service.over.wait(slow_s)
                with service._lock:
                    service._at_once -= 1
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def open(self) -> Iterator[Service]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.fixture
def echoing_munge(tmp_path: Path) -> Path:
    """A munge that puts what it is given into what it makes."""
    command = tmp_path / "munge"
    command.write_text("#!/bin/sh\nprintf 'MUNGE:%s:\\n' \"$(base64 -w0)\"\n")
    command.chmod(0o755)
    return tmp_path


def push(
    url: str, munge: Path, job: str = "4711", comment: str = "", *, home: bool = True
) -> subprocess.Popen[bytes]:
    """As slurmctld runs an epilog: with its own small environment."""
    given = {"SLURM_JOB_ID": job, "SLURM_JOB_COMMENT": comment, "MIRAGE_URL": url}
    given |= {"MIRAGE_PUSH_REST": "0.5", "MIRAGE_CLUSTER_NAME": "lab", "TMPDIR": str(munge)}
    given["HOME"] = str(munge / "home") if home else os.devnull
    environment = {"PATH": f"{munge}:/usr/bin:/bin"} | given
    return subprocess.Popen([HOOK], env=environment, start_new_session=True)


def left(process: subprocess.Popen[bytes]) -> bool:
    """Whether anything of it still runs, also what it left in the background."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_a_hint_with_a_job_number_signed_as_the_service_wants_it(echoing_munge: Path) -> None:
    with Service(slow_s=0).open() as service:
        assert push(service.url, echoing_munge, comment="mine mirage:abcd1234:1").wait() == 0
        wait_until(lambda: bool(service.heard))
    ((path, body, authorization),) = service.heard
    assert (path, body) == ("/api/v1/completions", '{"job_id": 4711}')
    scheme, _, credential = authorization.partition(" ")
    held = base64.b64decode(credential.split(":")[1]).decode()
    assert (scheme, held) == ("MUNGE", build_signed_text("POST", path, body.encode(), "lab"))


@pytest.mark.parametrize("comment", ["", "mirage:abcd1234:1"])
def test_slurmctld_never_waits_for_it(echoing_munge: Path, comment: str) -> None:
    with Service(slow_s=patient.PATIENCE_S).open() as silent:
        process = push(silent.url, echoing_munge, comment=comment)
        assert process.wait() == 0
        assert left(process), "what asks the service goes on behind it"
        wait_until(lambda: bool(silent.heard))
        wait_until(lambda: not left(process))


@pytest.mark.parametrize("option", ["--ignore-signal=ALRM", "--block-signal=ALRM"])
def test_a_message_ends_although_the_caller_hears_no_alarm(
    echoing_munge: Path, option: str
) -> None:
    program = PLUGIN / "hooks" / "mirage_push.py"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = subprocess.run(
            ["/usr/bin/env", option, sys.executable, "-IS", program, "4711"],
            check=False,
            env={
                "PATH": f"{echoing_munge}:/usr/bin:/bin",
                "MIRAGE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "MIRAGE_CLUSTER_NAME": "lab",
            },
        )
    assert done.returncode == -signal.SIGALRM


def test_without_a_service_it_ends_the_same(echoing_munge: Path) -> None:
    process = push("http://127.0.0.1:9", echoing_munge, comment="mirage:abcd1234:1")
    assert process.wait() == 0
    wait_until(lambda: not left(process))


@pytest.mark.parametrize("job", ["", "$(touch /tmp/x)", "12_3", "-1"])
def test_what_is_no_job_is_not_told(echoing_munge: Path, job: str) -> None:
    with Service(slow_s=0).open() as service:
        process = push(service.url, echoing_munge, job=job, comment="mirage:abcd1234:1")
        assert process.wait() == 0
        wait_until(lambda: not left(process))
    assert service.heard == []


def test_however_many_jobs_end_two_messages_are_under_way(echoing_munge: Path) -> None:
    with Service(slow_s=0.1).open() as service:
        links = [push(service.url, echoing_munge, str(n), "mirage:abcd1234:1") for n in range(1, 9)]
        others = [push(service.url, echoing_munge, str(n)) for n in range(100, 120)]
        assert {process.wait() for process in links + others} == {0}
        wait_until(lambda: not any(map(left, links + others)))
    told = [body for _, body, _ in service.heard]
    assert {f'{{"job_id": {n}}}' for n in range(1, 9)} <= set(told), "every link is told"
    assert len(told) < 8 + 20, "most others are left out"
    assert service.most_at_once <= 2


def test_who_can_read_the_plugin_keeps_no_message_waiting(echoing_munge: Path) -> None:
    with (
        Service(slow_s=0).open() as service,
        HOOK.open() as hook,
        HOOK.with_name("mirage_push.py").open() as program,
    ):
        fcntl.flock(hook, fcntl.LOCK_EX)
        fcntl.flock(program, fcntl.LOCK_EX)
        push(service.url, echoing_munge, "1", "mirage:abcd1234:1").wait()
        push(service.url, echoing_munge, "2").wait()
        wait_until(lambda: len(service.heard) == 2)
    assert not list(echoing_munge.glob("mirage-push.*")), "a name that others may take"
    own = echoing_munge / "home" / ".cache" / "mirage" / "push"
    kept = [own, *own.rglob("*")]
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("home", [True, False])
def test_the_message_of_a_link_waits_for_the_service(echoing_munge: Path, home: bool) -> None:
    lost = push("http://127.0.0.1:9", echoing_munge, "1", "mirage:abcd1234:1", home=home)
    lost.wait()
    wait_until(lambda: not left(lost))
    with Service(slow_s=0).open() as service:
        push(service.url, echoing_munge, "2", "mirage:abcd1234:2", home=home).wait()
        wait_until(lambda: len(service.heard) == 2)
    assert {body for _, body, _ in service.heard} == {'{"job_id": 1}', '{"job_id": 2}'}


def test_a_folder_that_another_user_made_keeps_no_message(echoing_munge: Path) -> None:
    folder = echoing_munge / f"mirage-push.{os.geteuid()}"
    theirs = echoing_munge / "theirs"
    theirs.mkdir()
    folder.symlink_to(theirs)
    with Service(slow_s=0).open() as service:
        process = push(service.url, echoing_munge, "1", "mirage:abcd1234:1", home=False)
        process.wait()
        wait_until(lambda: bool(service.heard) and not left(process))
    assert list(theirs.iterdir()) == []
