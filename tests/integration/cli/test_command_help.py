"""The help of every command, and the manual pages made from it."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_group

from mirage.cli.admin import man
from mirage.cli.app import COMMANDS
from mirage.cli.command_help import EXITS, MANUAL
from tests.needed import absent
from tests.support.mirage_process import run

SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO")


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that can be called, by its words."""

    def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
        for name, one in (inner or {}).items():
            yield from below(f"{words} {name}", one)

    for name, (module, _) in COMMANDS.items():
        yield from below(name, get_group(import_module(module).app).commands[name])


LEAVES = dict(leaves())
EXAMPLES = [(words, line) for words, entry in MANUAL.items() for _, line in entry.examples]


def test_every_command_has_examples_and_exit_codes_and_none_is_left_over() -> None:
    assert set(MANUAL) == set(LEAVES)
    assert all(entry.examples and entry.exits for entry in MANUAL.values())
    assert {code for entry in MANUAL.values() for code in entry.exits} <= set(EXITS)


@pytest.mark.parametrize(("words", "line"), EXAMPLES)
def test_an_example_parses(words: str, line: str) -> None:
    given = shlex.split(line)
    assert given[: 1 + len(words.split())] == ["mirage", *words.split()]
    rest = given[1 + len(words.split()) :]
    if "--help" in rest:
        assert words == "handover", "an example shows what it does"
        return
    LEAVES[words].make_context(words, rest)  # raises for what does not parse
    asked = [word for word in rest if word.startswith("--")]
    named = {name for p in LEAVES[words].params for name in (*p.opts, *p.secondary_opts)}
    assert set(asked) <= named


@pytest.mark.parametrize("words", [("chain", "show"), ("demo",), ("db", "upgrade")])
def test_help_ends_with_examples_and_exit_codes(words: tuple[str, ...]) -> None:
    done = run(*words, "--help", COLUMNS="200", LC_ALL="C.UTF-8")
    assert done.code == 0, done.err
    for _, line in MANUAL[" ".join(words)].examples:
        assert line in done.out
    assert "Exit codes 0 done; 1 it failed" in done.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("man")
    assert run("man", str(into)).code == 0
    return into / "man1"


def test_every_command_has_its_page(folder: Path) -> None:
    found = {path.name for path in folder.iterdir()}
    assert {f"mirage-{words.replace(' ', '-')}.1" for words in LEAVES} <= found
    assert "mirage.1" in found
    assert len(man.render_pages()) == len(found)


@pytest.mark.parametrize("words", LEAVES)
def test_a_page_has_its_sections(folder: Path, words: str) -> None:
    text = (folder / f"mirage-{words.replace(' ', '-')}.1").read_text()
    heads = [line.removeprefix(".SH ") for line in text.splitlines() if line.startswith(".SH ")]
    assert [head for head in heads if head in SECTIONS] == list(SECTIONS)
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".B", ".PP", ".TP", ".nf", ".fi", ".RS", ".RE"}


def test_troff_has_no_complaint(folder: Path) -> None:
    groff = shutil.which("groff") or absent("no groff")
    pages = sorted(map(str, folder.glob("mirage*.1")))
    command = [groff, "-man", "-Tutf8", "-ww", "-K", "utf8", *pages]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "MIRAGE-CHAIN-SHOW(1)" in done.stdout
