"""The command tree: whole, and quick to start."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.main import get_group

import mirage.cli
from mirage.cli.app import COMMANDS, PANELS, app

ROOM = Path(mirage.cli.__path__[0])
MODULES = [
    ".".join(["mirage.cli", *path.relative_to(ROOM).with_suffix("").parts])
    for path in sorted(ROOM.rglob("[a-z]*.py"))
]

# Seconds of import time that a login node need not spend.
HEAVY = {"alembic", "fastapi", "numpy", "pyarrow", "sqlalchemy", "structlog", "uvicorn"}

LOADED = "import sys; print(*sorted({{m.split('.')[0] for m in sys.modules}} & {wanted!r}))"


def loaded_by(*words: str) -> list[str]:
    """Those of HEAVY that `mirage WORDS` imports."""
    program = (
        f"import sys; sys.argv[1:] = {list(words)!r}\n"
        "from mirage.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.stdout.flush(); print(); {LOADED.format(wanted=HEAVY)}"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_every_command_of_every_module_is_in_the_tree() -> None:
    apps = [getattr(import_module(module), "app", None) for module in MODULES]
    own = [name for app in apps if isinstance(app, typer.Typer) for name in get_group(app).commands]
    assert sorted(own) == sorted(2 * list(COMMANDS)), "the tree's own, and the modules'"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_overview_is_how_the_commands_own_help_begins(name: str) -> None:
    module, line = COMMANDS[name]
    own = get_group(import_module(module).app).commands[name].help
    assert own is not None
    assert " ".join(own.split()).startswith(line)


@pytest.mark.parametrize(
    "words", [("--help",), ("chain", "--help"), ("chain", "list", "--url", "http://127.0.0.1:9")]
)
def test_looking_at_chains_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded_by(*words) == []


def test_a_tab_imports_nothing_that_takes_longer_than_numpy() -> None:
    """Typer imports the command's module on Tab (docs/decisions/0035)."""
    modules = ", ".join(sorted({module for module, _ in COMMANDS.values()}))
    program = f"import {modules}\n{LOADED.format(wanted=HEAVY)}"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} <= {"numpy"}


def test_no_command_leans_on_what_another_has_imported() -> None:
    """Tests run most of them in a process that has imported all (`tests.support.warm`)."""
    program = (
        "import os, sys\n"
        # What costs most, and imports nothing of Mirage.
        "import fastapi, httpx, numba, pyarrow, scipy, sqlalchemy, uvicorn\n"
        "from tests.support.cli.late_imports import import_whole\n"
        "for module in sys.argv[1:]:\n"
        "    if os.fork() == 0:\n"
        "        import_whole(module)\n"
        "        os._exit(0)\n"
        "    if os.wait()[1]: sys.exit(module)\n"
    )
    modules = sorted({module for module, _ in COMMANDS.values()})
    command = [sys.executable, "-c", program, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "chian"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No such command 'chian'. Did you mean 'chain'?" in done.stderr


def test_it_is_called_mirage_however_it_was_started() -> None:
    """The package's command is `python -m mirage`: help, errors and completion go by the name."""
    install = [sys.executable, "-m", "mirage", "--show-completion"]
    shell = ["bash", "-c", '"$@"; true', "bash", *install]  # found as the parent process
    shown = subprocess.run(shell, capture_output=True, text=True, check=False).stdout
    assert "_MIRAGE_COMPLETE=complete_bash $1" in shown
    assert shown.rstrip().endswith("_mirage_completion mirage")


def test_a_bug_report_can_name_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["--version"], prog_name="mirage")
    assert ended.value.code == 0
    assert re.fullmatch(r"mirage \d+\.\d+\S*\n", capsys.readouterr().out)


def test_the_help_groups_every_command_once() -> None:
    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)
