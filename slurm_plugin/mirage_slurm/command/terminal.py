"""What is printed, as the terminal can show it: its width, its characters and its colours.

Widths, line breaks and tables are those of the library rich, which printed them before: scripts and
eyes know them (tests/unit/slurm_plugin/test_same_as_rich.py).
"""

import os
import re
import sys
import unicodedata

from mirage_slurm.client.printable import escape_unprintable

_WORD = re.compile(r"\s*\S+\s*")
_CODES = {
    "bold": "1",
    "dim": "2",
    "green": "32",
    "cyan": "36",
    "dim green": "2;32",
    "bold red": "1;31",
    "bold yellow": "1;33",
}
_COLOUR = re.compile(r";?3\d")


class Terminal(object):
    """Where the output goes."""

    __slots__ = ("ascii_only", "has_colours", "has_styles", "width")

    def __init__(self, width, ascii_only, has_styles=False, has_colours=False):
        self.width = width
        self.ascii_only = ascii_only
        self.has_styles = has_styles
        self.has_colours = has_colours


class Line(object):
    """A line of texts, each with its style."""

    __slots__ = ("parts",)

    def __init__(self, *parts):
        self.parts = [part if isinstance(part, tuple) else (part, "") for part in parts]

    @property
    def plain(self):
        return "".join(text for text, _ in self.parts)

    def __add__(self, other):
        return Line(*(self.parts + other.parts))


def find_terminal(environ):
    """Return the terminal at standard output, or how a pipe is written to."""
    is_dumb = environ.get("TERM", "").lower() in ("dumb", "unknown")
    has_styles = _is_terminal(environ) and not is_dumb
    return Terminal(
        80 if _is_terminal(environ) and is_dumb else _find_width(environ),
        not _is_utf8(getattr(sys.stdout, "encoding", None), environ),
        has_styles,
        has_styles and not environ.get("NO_COLOR"),
    )


def _is_terminal(environ):
    if "FORCE_COLOR" in environ:
        return environ["FORCE_COLOR"] != ""
    try:
        return sys.stdout.isatty()
    except ValueError:
        return False


def _find_width(environ):
    if environ.get("COLUMNS", "").isdigit():
        return int(environ["COLUMNS"]) or 80
    for number in (0, 1, 2):
        try:
            return os.get_terminal_size(number).columns or 80
        except (OSError, ValueError):
            continue
    return 80


def _is_utf8(encoding, environ):
    """Return whether the terminal reads UTF-8; in the locale C only Python does (PEP 538, 540)."""
    is_requested = environ.get("PYTHONUTF8") == "1"
    is_coerced = getattr(sys.flags, "utf8_mode", 0) and not is_requested
    return not is_coerced and (encoding or "utf-8").lower().replace("-", "") == "utf8"


def print_text(text):
    """Print a text. What the stream's encoding lacks is printed as an escape."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def print_json(value):
    """Print the value as JSON, and return the exit code 0."""
    import json

    print_text(json.dumps(value, indent=2))
    return 0


def print_wrapped(text, terminal):
    """Print a text in lines that fit into the terminal, broken between words."""
    for line in wrap_text(text, terminal.width):
        print_text(line)


def print_line(line, terminal):
    """Print a Line, cut at the terminal's width. Its texts may be anybody's: over plain http somebody else
    than the service may have answered."""
    room, painted = terminal.width, []
    for text, style in line.parts:
        part = cut_text(escape_unprintable(text), room)
        room -= count_cells(part)
        painted.append(_paint(part, style, terminal))
    print_text("".join(painted))


def _paint(text, style, terminal):
    code = _CODES.get(style, "") if terminal.has_styles else ""
    if not terminal.has_colours:
        code = _COLOUR.sub("", code)
    return "\033[%sm%s\033[0m" % (code, text) if code and text else text


# --- widths --------------------------------------------------------------------------------------


def count_cells(text):
    """Return how many columns of a terminal the text takes."""
    if all(" " <= c <= "~" for c in text):
        return len(text)
    return sum(_count_cell(c) for c in text)


def _count_cell(character):
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut_text(text, width):
    """Return the beginning of the text that fits into `width` columns."""
    if count_cells(text) <= width:
        return text
    end, cells = 0, 0
    for character in text:
        cells += _count_cell(character)
        if cells > width:
            break
        end += 1
    return text[:end]


def wrap_text(text, width, folds=True):
    """Return the lines of a text, at most `width` columns each. Words that are longer than a line are
    folded; if not `folds`, they are left too long."""
    if not text.strip():
        return [_strip_end(text, width)]
    lines, line, cells = [], "", 0
    for match in _WORD.finditer(text):
        word = match.group()
        word_cells = count_cells(word.rstrip())
        if line and word_cells > width - cells:
            lines.append(line)
            line, cells = "", 0
        while folds and word_cells > width and count_cells(word) > width:
            head = cut_text(word, width) or word[0]
            lines.append(head)
            word = word[len(head) :]
        line += word
        cells += count_cells(word)
    return [_strip_end(line, width) for line in lines + [line]]


def _strip_end(line, width):
    """Take away the spaces at the end that lie beyond `width`."""
    while line.endswith(" ") and count_cells(line) > width:
        line = line[:-1]
    return line
