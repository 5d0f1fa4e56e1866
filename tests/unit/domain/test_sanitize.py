"""Text of users on a terminal and in a log, by the service and by the client."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.sanitize import escape_unprintable
from mirage.shipped_files import load_client_module

escape_in_client: Callable[[str], str] = load_client_module("client.printable").escape_unprintable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train_8 naïve 漢字", "train_8 naïve 漢字"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x1b]0;x\x07", r"\x1b[2J\x1b]0;x\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("evil\u202egnp.exe", r"evil\u202egnp.exe"),
        ("<script>$(id)</script>", "<script>$(id)</script>"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert escape_unprintable(text) == escape_in_client(text) == shown


@given(st.text())
def test_it_is_one_line_and_holds_no_control(text: str) -> None:
    shown = escape_unprintable(text)
    assert escape_in_client(text) == shown
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert escape_unprintable(shown) == shown


def test_lines_stay_where_they_are_meant() -> None:
    assert escape_unprintable("a\n\x1bb", keep="\n") == "a\n\\x1bb"
