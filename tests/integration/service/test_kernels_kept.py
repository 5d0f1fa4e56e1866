"""What was compiled stays: over a stop in the middle, an upgrade, and a second start."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.paths import CHECKOUT
from tests.support.patient import wait_until

WARMUP = (sys.executable, "-P", "-u", "-m", "mirage.service.kernel_warmup")
FEW = 3
SAVED, LOADED = (
    re.compile(rf"^\[cache\] data {word} (?:to|from) '(.+)'$") for word in ("saved", "loaded")
)
UNDER_THE_UNIT = """
import ctypes, errno, sys

class Filter(ctypes.Structure):
    _fields_ = [(n, t) for n, t in zip(
        ("code", "jt", "jf", "k"),
        (ctypes.c_ushort, ctypes.c_ubyte, ctypes.c_ubyte, ctypes.c_uint),
    )]

class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

SETPRIORITY = 141
rules = (Filter * 4)(
    Filter(0x20, 0, 0, 0),  # load the number of the system call
    Filter(0x15, 0, 1, SETPRIORITY),
    Filter(0x06, 0, 0, 0x00050000 | errno.EPERM),
    Filter(0x06, 0, 0, 0x7FFF0000),
)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.byref(Program(4, rules)), 0, 0) == 0  # PR_SET_SECCOMP
from mirage.service.kernel_warmup import main
main(sys.argv[1:])
"""


def environment(cache: Path, checkout: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHON"))}
    own = {"NUMBA_CACHE_DIR": str(cache), "NUMBA_DEBUG_CACHE": "1", "PYTHONPATH": str(checkout)}
    return kept | own


@contextmanager
def compiling(cache: Path, checkout: Path) -> Iterator[Iterator[str]]:
    """The lines that numba says of its cache; the process is killed at the end of the block."""
    with subprocess.Popen(
        WARMUP, env=environment(cache, checkout), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.kill()


def name_files(pattern: re.Pattern[str], lines: Iterator[str]) -> Iterator[str]:
    """The kernels' files, as numba reads or writes them."""
    return (found[1] for line in lines if (found := pattern.match(line.strip())))


def test_a_compiler_that_was_stopped_in_the_middle_goes_on_also_after_an_upgrade(
    tmp_path: Path,
) -> None:
    checkout, cache = tmp_path / "checkout", tmp_path / "cache"
    ignored = shutil.ignore_patterns("__pycache__", "static", "templates")
    shutil.copytree(CHECKOUT / "mirage", checkout / "mirage", ignore=ignored)
    with compiling(cache, checkout) as lines:
        before = {next(saved) for saved in [name_files(SAVED, lines)] for _ in range(FEW)}
    assert len(before) == FEW
    for source in checkout.rglob("*.py"):  # a package brings the same files with other times
        os.utime(source, (1, 1))
    loaded, saved = set(), set()
    with compiling(cache, checkout) as lines:
        for line in lines:
            loaded |= set(name_files(LOADED, iter([line])))
            saved |= set(name_files(SAVED, iter([line])))
            if len(saved) == FEW:
                break
    assert before <= loaded
    assert not before & saved


def test_a_second_start_compiles_nothing() -> None:
    """In the cache of this checkout, whose kernels the tests before have compiled, or the first."""
    kept = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    told = [
        subprocess.run(
            WARMUP,
            env=kept | {"NUMBA_DEBUG_CACHE": "1", "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert list(name_files(SAVED, iter(told[1]))) == []
    assert len(set(name_files(LOADED, iter(told[1])))) > FEW


def test_a_second_compiler_waits_for_the_first(tmp_path: Path) -> None:
    """So the service that starts during an installation does no work twice."""
    with compiling(tmp_path, CHECKOUT) as lines:
        next(name_files(SAVED, lines))
        (folder,) = tmp_path.glob("kernels-*")
        with compiling(tmp_path, CHECKOUT):
            wait_until(lambda: _count_waiters(folder / "compiling.lock") == 1, "nobody waits")


def _count_waiters(lock: Path) -> int:
    inode = lock.stat().st_ino
    waits = [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return sum(line.split()[-3].endswith(f":{inode}") for line in waits)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call")
def test_a_unit_that_allows_no_change_of_priority_stops_no_compilation(tmp_path: Path) -> None:
    """mirage.service filters the system calls of @resources."""
    words = [sys.executable, "-c", UNDER_THE_UNIT, str(tmp_path / "no-such-file.toml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "ConfigError" in done.stderr
    assert "Permission" not in done.stderr
