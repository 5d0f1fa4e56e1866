"""Tables and lines of `mirage chain` are those of rich, which once printed them."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mirage.shipped_files import load_client_module
from tests.support.paths import PLUGIN

screen = load_client_module("command.terminal")
tables = load_client_module("command.tables")

NAMES = ("chain", "user", "waits")
WORDS = some.text("ab-é ", max_size=30)
ROWS = some.lists(some.tuples(some.text("k1", max_size=12), WORDS, WORDS), min_size=1, max_size=3)


def console(width: int, *, ascii_only: bool = False) -> Console:
    class _Console(Console):
        @property
        def encoding(self) -> str:
            return "ascii" if ascii_only else "utf-8"

    return _Console(file=StringIO(), width=width, color_system=None, emoji=False, markup=False)


def printed(out: Console, what: Any) -> list[str]:
    out.print(what, highlight=False)
    assert isinstance(out.file, StringIO)
    return out.file.getvalue().splitlines()


@given(rows=ROWS, width=some.integers(40, 120), ascii_only=some.booleans())
def test_a_table_is_the_one_that_rich_draws(
    rows: list[tuple[str, ...]], width: int, ascii_only: bool
) -> None:
    drawn = tables.render_table(NAMES, rows, ("user", "waits"), screen.Terminal(width, ascii_only))
    theirs = Table(*(Column(name, no_wrap=name == "chain") for name in NAMES))
    for row in rows:
        theirs.add_row(*map(Text, row))
    expected = printed(console(width, ascii_only=ascii_only), theirs)
    assert [line.plain for line in drawn] == expected


@given(text=some.text("abc-é  ", max_size=200), width=some.integers(5, 60))
def test_a_sentence_is_broken_where_rich_breaks_it(text: str, width: int) -> None:
    assert screen.wrap_text(text, width) == printed(console(width), Text(text))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"FORCE_COLOR": "1", "TERM": "xterm"}, "\x1b[1;31mx\x1b[0my"),
        ({"FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1"}, "\x1b[1mx\x1b[0my"),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, "xy"),
        ({"TERM": "xterm"}, "xy"),
    ],
)
def test_colours_are_for_terminals_that_have_them(variables: dict[str, str], expected: str) -> None:
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from mirage_slurm.command import terminal as screen\n"
        "screen.print_line(screen.Line(('x', 'bold red'), 'y'), screen.find_terminal(os.environ))\n"
    )
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    command = [sys.executable, "-c", program, str(PLUGIN)]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=True)
    assert done.stdout == f"{expected}\n"
