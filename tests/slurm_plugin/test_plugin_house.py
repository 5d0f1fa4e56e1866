"""The plugin runs on login nodes: the standard library of Python 3.6, nothing of Mirage."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm_plugin.fakes import PLUGIN

SOURCES = [PLUGIN / "sbatch", PLUGIN / "hooks" / "mirage-rerun", *sorted(PLUGIN.glob("*.py"))]
SHELL = [PLUGIN / "carrier.sh", PLUGIN / "mirage-link"]
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


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"]], ids=str)
def test_the_shell_parts_parse(path: Path, shell: list[str]) -> None:
    subprocess.run([*shell, "-n", path], check=True)


def test_the_wrapper_is_executable_and_starts_without_site() -> None:
    assert (PLUGIN / "sbatch").stat().st_mode & 0o111 == 0o111
    assert (PLUGIN / "sbatch").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert (PLUGIN / "mirage-link").stat().st_mode & 0o111 == 0o111
