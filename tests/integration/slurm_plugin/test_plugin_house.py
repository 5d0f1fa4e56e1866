"""The plugin runs on login nodes: the standard library of Python 3.6, nothing of Mirage."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import needed
from tests.support.paths import PLUGIN

PROGRAMS = ("sbatch", "mirage-handover", "hooks/mirage-rerun", "hooks/mirage_push.py")
SOURCES = [*(PLUGIN / name for name in PROGRAMS), *sorted(PLUGIN.rglob("*.py"))]
SHELL = [
    *sorted(PLUGIN.glob("mirage_slurm/carrier/*.sh")),
    PLUGIN / "mirage-link",
    PLUGIN / "scancel",
    PLUGIN / "hooks" / "mirage-push",
]
ROOMS = (("command",), ("api",), ("wrapper", "handover"), ("planner",), ("client",))
"""A room imports from itself and from rooms further to the right."""
MOST_MODULES = 18
FROZEN = [
    "sbatch",
    "scancel",
    "mirage-link",
    "mirage-handover",
    "mirage_next.py",
    "mirage_plan.py",
    "mirage_return.py",
    "mirage_handover.py",
    "mirage_handover_lightning.py",
    "mirage_handover_torch.py",
    "mirage_handover_transformers.py",
    "mirage_lease.py",
    "mirage_watch.py",
    "hooks/mirage-push",
    "hooks/mirage-rerun",
    "hooks/mirage_push.py",
    "hooks/mirage_submit.lua",
    "hooks/mirage_cli.lua",
    "spank/mirage_spank.c",
]
"""Named by their paths: in carriers of chains under way, by sites and in scripts of users."""
MODULES = {
    "mirage_handover": "handover",
    "mirage_handover_lightning": "for_lightning",
    "mirage_handover_torch": "for_torch",
    "mirage_handover_transformers": "for_transformers",
    "mirage_lease": "lease_files",
    "mirage_watch": "watch",
}
"""Imported by programs of users under their old names."""


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PLUGIN).with_suffix("").parts)


def plugin_imports(path: Path) -> set[str]:
    """The plugin's own modules that one names, be it at the top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    own = [name.split(".") for name in names if name.startswith("mirage_slurm.")]
    # What is no module is a name in one.
    return {
        ".".join(parts if PLUGIN.joinpath(*parts).with_suffix(".py").exists() else parts[:-1])
        for parts in own
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_is_python_3_6_and_standard_library(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))
    assert imported(path) <= {"mirage_slurm"} | sys.stdlib_module_names


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {name_of(path): plugin_imports(path) for path in sorted(PLUGIN.rglob("*.py"))}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_a_room_imports_only_from_rooms_below_it() -> None:
    folders = {path.parent.name for path in PLUGIN.glob("mirage_slurm/*/*.py")}
    assert folders == {room for rooms in ROOMS for room in rooms}
    for depth, rooms in enumerate(ROOMS):
        below = {room for lower in ROOMS[depth + 1 :] for room in lower}
        for room in rooms:
            for path in PLUGIN.glob(f"mirage_slurm/{room}/*.py"):
                named = {name.split(".")[1] for name in plugin_imports(path)}
                assert named <= {room} | below, path


def test_what_lies_beside_the_rooms_only_leads_to_them() -> None:
    for path in PLUGIN.glob("*.py"):
        body = ast.walk(ast.parse(path.read_text()))
        assert not [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)], path


@pytest.mark.parametrize(("name", "module"), MODULES.items())
def test_a_module_at_a_frozen_path_is_the_one_in_its_room(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    in_room = importlib.import_module(f"mirage_slurm.handover.{module}")
    assert importlib.import_module(name) is in_room


def test_no_folder_holds_more_modules_than_one_can_survey() -> None:
    for folder in {path.parent for path in PLUGIN.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES, folder


def test_what_others_name_by_its_path_is_there() -> None:
    assert [name for name in FROZEN if not (PLUGIN / name).is_file()] == []
    named = set(re.findall(r"\$mirage_plugin/([\w.-]+)", "".join(p.read_text() for p in SHELL)))
    assert named == {"mirage_next.py", "mirage_plan.py", "mirage_return.py", "scancel"}


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
