"""What sbatch inherits from the wrapper is what it would have inherited without it."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping

import pytest

from tests.support.slurm_plugin.fakes import WRAPPER, FakeSlurm

INHERITED = (
    "#!/bin/sh\n"
    "{{ env -0 | sort -z | tr '\\0' '\\n'; grep ^Sig[BI] /proc/self/status; umask; ulimit -a\n"
    "ls /proc/self/fd; }} >{home}/inherited.$MIRAGE_TEST 2>/dev/null\n"
)


def inherited(slurm: FakeSlurm, command: str, env: Mapping[str, str], redirect: str = "") -> str:
    """What a fake sbatch finds when `command` is run from a shell that sets nothing else."""
    name = "wrapped" if command == str(WRAPPER) else "real"
    subprocess.run(
        [
            *("env", "-i", f"MIRAGE_TEST={name}", *(f"{k}={v}" for k, v in env.items())),
            *("sh", "-c", f'exec "{command}" job.sh {redirect}'),
        ],
        check=False,
        cwd=slurm.root / "home",
    )
    text = (slurm.root / f"inherited.{name}").read_text()
    return text.replace(f"MIRAGE_TEST={name}\n", "")


@pytest.mark.parametrize(
    "env",
    [{}, {"LANG": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_CTYPE": "C"}, {"LC_ALL": "POSIX"}],
    ids=str,
)
@pytest.mark.parametrize("redirect", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_the_process_is_as_the_shell_made_it(
    slurm: FakeSlurm, env: dict[str, str], redirect: str
) -> None:
    """Python sets LC_CTYPE in a locale without one, ignores SIGPIPE, and minds a closed stream."""
    slurm.command("sbatch", INHERITED)
    slurm.script("#!/bin/sh\ntrue\n")
    given = {"PATH": slurm.environ["PATH"], "HOME": str(slurm.root / "home"), **env}
    real = inherited(slurm, str(slurm.root / "bin" / "sbatch"), given, redirect)
    assert inherited(slurm, str(WRAPPER), given, redirect) == real
    assert ("LC_CTYPE" in real) == ("LC_CTYPE" in env)


@pytest.mark.parametrize("redirect", ["<&-", ">&-", "2>&-"])
def test_a_chain_minds_no_closed_stream(slurm: FakeSlurm, redirect: str) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    done = subprocess.run(
        ["sh", "-c", f'exec "{WRAPPER}" --mirage-chain=2 job.sh {redirect}'],
        check=False,
        capture_output=True,
        cwd=slurm.root / "home",
        env=slurm.environ,
    )
    assert done.returncode == 0
    assert done.stdout == (b"" if redirect == ">&-" else b"Submitted batch job 101\n")
    assert len(slurm.chains()) == 1


def test_what_is_quoted_to_the_user_cannot_steer_the_terminal(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    for words in (["--mirage-style=\x1b[2J\n"], ["--bogus-\x1b[2J"]):
        done = slurm.sbatch("--mirage-chain=2", *words, "job.sh")
        own = [line for line in done.stderr.split(b"\n") if b"mirage" in line]
        assert len(own) == 1
        assert b"\x1b" not in own[0]


def test_a_reader_that_left_costs_a_chain_nothing(slurm: FakeSlurm) -> None:
    """Nobody reads its errors, and it has something to say: the service is down."""
    slurm.script("#!/bin/sh\ntrue\n")
    words = f'{{ "{WRAPPER}" --mirage-chain=2 job.sh; echo $? >code; }} 2>&1 | true'
    slow = slurm.root / "bin" / "sbatch"
    slow.write_text(slow.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nsleep 0.3\n", 1))
    subprocess.run(["sh", "-c", words], check=True, cwd=slurm.root / "home", env=slurm.environ)
    assert (slurm.root / "home" / "code").read_text() == "0\n"
    assert len(slurm.chains()) == 1


def test_a_blocked_alarm_delays_nothing(slurm: FakeSlurm) -> None:
    """The service keeps silent, and whoever calls blocks the signal that ends the waiting."""
    slurm.script("#!/bin/sh\ntrue\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        blocked = [signal.SIGALRM]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            done = slurm.sbatch(
                "--mirage-chain=2", "job.sh", env={"MIRAGE_URL": f"http://127.0.0.1:{port}"}
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert b"no answer in 1.8 s" in done.stderr
