"""The house style where no linter holds it (docs/decisions say why)."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import CHECKOUT

NOT_OURS = {".venv", "build", "dist"}
NAMELESS = {"utils", "helpers", "common", "base", "misc", "core"}
TRAINING = {"torch", "sklearn", "xgboost", "stable_baselines3", "gymnasium"}
TRAINING |= {"onnx", "onnxmltools", "skl2onnx"}


def ours() -> Iterator[Path]:
    """Python files; it does not look into what is not ours, twenty times as much."""
    for folder, inner, names in os.walk(CHECKOUT):
        inner[:] = [name for name in inner if name not in NOT_OURS]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


SOURCES = sorted(ours())
ROOMS = sorted((CHECKOUT / "mirage").rglob("__init__.py"))
DECISIONS = sorted((CHECKOUT / "docs" / "decisions").glob("[0-9]*.md"))


def shown(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def test_no_module_is_named_for_having_no_name() -> None:
    names = {shown(path) for path in SOURCES if NAMELESS & {path.stem, path.parent.name}}
    assert names == set()


MOST_MODULES = 18
"""In a folder, counting __init__.py: more is a list, not a room."""


@pytest.mark.parametrize("room", ROOMS, ids=shown)
def test_a_room_can_be_seen_at_a_glance(room: Path) -> None:
    assert len(list(room.parent.glob("*.py"))) <= MOST_MODULES


@pytest.mark.parametrize("path", ROOMS, ids=shown)
def test_a_room_says_what_it_is_for_and_imports_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p.is_relative_to(CHECKOUT / "mirage")], ids=shown
)
def test_a_module_opens_with_a_sentence(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_index_of_decisions_has_each_and_its_status() -> None:
    index = (CHECKOUT / "docs" / "decisions" / "README.md").read_text()
    for path in DECISIONS:
        row = next((r for r in index.splitlines() if r.startswith(f"| [{path.name[:4]}]")), "")
        assert f"]({path.name})" in row
        assert re.search(r"\| (accepted|superseded by \d{4}|experiment closed)\b[^|]*\|$", row), row
        superseded = path.read_text().splitlines()[2].startswith("Superseded by")
        assert superseded == ("| superseded by" in row), row


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_parts_in_order(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.name[:4]} ")
    parts = [
        text.find(word) for word in ("**Context", "**Decision", "**Consequences", "**Enforced")
    ]
    assert -1 not in parts
    assert parts == sorted(parts)


SERVICE = [
    "mirage.web.api.app",
    "mirage.web.pages.app",
    "mirage.service.worker",
    "mirage.service.service_run",
]


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Of each module of the service: what only training needs, once it and those before it are
    there. One process: each would load most of the others'."""
    program = (
        "import importlib, json, sys\n"
        "def those(name):\n"
        "    importlib.import_module(name)\n"
        f"    return sorted({TRAINING!r} & set(sys.modules))\n"
        f"print(json.dumps({{name: those(name) for name in {SERVICE!r}}}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", SERVICE)
def test_the_service_loads_nothing_that_only_training_needs(
    module: str, loaded: dict[str, list[str]]
) -> None:
    assert loaded[module] == []


PROSE = {"note", "says", "reason", "error", "event"}
"""Sentences and the audit's words: what a program does depends on no beginning of theirs."""
ASKS_THE_AUDIT = {
    "chains/chain_ownership.py",
    "web/api/routes/system.py",
    "web/pages/admin.py",
    "web/pages/admin_audit.py",
}
"""To show it; and `chain_ownership` so as not to tell the same twice."""


@cache
def _calls(path: Path) -> list[tuple[str, ast.expr]]:
    """(method, what it is called on)."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [(n.func.attr, n.func.value) for n in nodes if isinstance(n.func, ast.Attribute)]


def _last_name(value: ast.expr) -> str:
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


MIRAGE = [path for path in SOURCES if path.is_relative_to(CHECKOUT / "mirage")]


def _fixtures(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if "pytest.fixture" in decorators:
                yield node


def test_each_fixture_is_made_once() -> None:
    """Fixtures of one name may differ, as one overrides another; the same fixture has one place."""
    places: dict[str, list[str]] = {}
    for path in sorted((CHECKOUT / "tests").rglob("*.py")):
        for fixture in _fixtures(path):
            body = fixture.body[1:] if ast.get_docstring(fixture) else fixture.body
            made = "\n".join(map(ast.unparse, [fixture.args, *body]))
            places.setdefault(made, []).append(f"{shown(path)}: {fixture.name}")
    assert len(places) > 100
    assert [found for found in places.values() if len(found) > 1] == []


def test_no_note_is_asked_how_it_begins() -> None:
    found = {
        shown(path)
        for path in MIRAGE
        for method, on in _calls(path)
        if method in {"startswith", "removeprefix"} and _last_name(on) in PROSE
    }
    # `reason` there is squeue's word; the audit's old rows are forgotten by their events.
    assert found == {"mirage/slurm/text/holds.py", "mirage/database/schema/pruning.py"}


def test_only_who_shows_the_audit_reads_it() -> None:
    found = {
        shown(path)
        for path in MIRAGE
        for method, on in _calls(path)
        if _last_name(on) == "audit" and method in {"list_entries", "list_chain_entries"}
    }
    assert found == {f"mirage/{name}" for name in ASKS_THE_AUDIT}
