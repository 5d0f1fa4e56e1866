"""Long work says that it goes on, at a terminal; elsewhere it is silent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli.shells import environment, type_at_terminal

PROGRAM = """
from mirage.cli.ui.progress import show_activity, show_progress
with show_progress("counting steps", 3) as told:
    for _ in range(3):
        told()
with show_activity("at work"):
    pass
print("over")
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    made = environment(tmp_path, "http://127.0.0.1:9") | {"TERM": "xterm", "COLUMNS": "100"}
    return made | {"MIRAGE_DATABASE_URL": f"sqlite:///{tmp_path}/mirage.db"}


@pytest.mark.parametrize(
    ("words", "shown", "end"),
    [
        (["-c", PROGRAM], "counting steps", "over"),
        (["-c", PROGRAM], "at work", "over"),
        (["-m", "mirage", "db", "upgrade"], "upgrading the database", "has this program's schema"),
    ],
)
def test_a_terminal_sees_it(
    words: list[str], shown: str, end: str, environ: dict[str, str]
) -> None:
    type_at_terminal([sys.executable, *words], "", end, environ, ready=shown)


def test_a_pipe_sees_nothing_of_it(environ: dict[str, str]) -> None:
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("over\n", "")


def test_that_the_simulator_is_compiled_is_said_once(tmp_path: Path) -> None:
    """By a command that has its imports: what they cache in has its folder by then."""
    program = (
        "import mirage.lab.demo.demo_site\n"
        "from mirage.cli.ui.compile_notice import warn_if_compiling\n"
        "warn_if_compiling()"
    )
    environ = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def told() -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        return done.stderr

    assert told().startswith("compiling the simulator: this takes a minute")
    (folder,) = tmp_path.glob("kernels-*")
    (folder / "replay.step-17.py311.nbi").touch()  # as numba leaves one
    assert told() == ""
