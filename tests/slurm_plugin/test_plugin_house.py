"""The plugin runs on login nodes: the standard library of Python 3.6, nothing of Mirage."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needed
from tests.slurm_plugin.fakes import PLUGIN

PROGRAMS = ("sbatch", "mirage-handover", "hooks/mirage-rerun", "hooks/mirage_push.py")
SOURCES = [*(PLUGIN / name for name in PROGRAMS), *sorted(PLUGIN.glob("*.py"))]
SHELL = [
    *sorted(PLUGIN.glob("carrier*.sh")),
    PLUGIN / "mirage-link",
    PLUGIN / "hooks" / "mirage-push",
]
OWN = {path.stem for path in PLUGIN.glob("*.py")}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_is_python_3_6_and_standard_library(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))
    assert imported(path) <= OWN | sys.stdlib_module_names


def test_it_uses_nothing_newer_than_python_3_6() -> None:
    if importlib.util.find_spec("vermin") is None:
        needed.absent("vermin is not installed: pip install -e '.[dev]'")
    run = [sys.executable, "-c", "from vermin import main; main()"]
    words = ["--target=3.6-", "--no-tips", "--violations", *map(str, SOURCES)]
    done = subprocess.run([*run, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"]], ids=str)
def test_the_shell_parts_parse(path: Path, shell: list[str]) -> None:
    subprocess.run([*shell, "-n", path], check=True)


def test_the_wrapper_is_executable_and_starts_without_site() -> None:
    assert (PLUGIN / "sbatch").stat().st_mode & 0o111 == 0o111
    assert (PLUGIN / "sbatch").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert (PLUGIN / "mirage-link").stat().st_mode & 0o111 == 0o111
    assert (PLUGIN / "mirage-handover").stat().st_mode & 0o111 == 0o111
    assert (PLUGIN / "mirage-handover").read_text().startswith("#!/usr/bin/python3 -IS\n")
