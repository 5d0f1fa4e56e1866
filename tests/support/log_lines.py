"""Reads a file of lines while a program writes it."""

from pathlib import Path


def read_whole_lines(path: Path) -> list[str]:
    """Return the lines that are whole, none if there is no such file yet.

    The writer may be in the midst of the last one, so that a line without its end is left out.
    """
    text = path.read_text() if path.exists() else ""
    return text.rpartition("\n")[0].splitlines()
