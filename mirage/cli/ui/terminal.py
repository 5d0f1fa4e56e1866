"""Creates the console that commands print on, in ASCII if the locale is not UTF-8."""

import os
import sys

from rich.console import Console


class _AsciiConsole(Console):
    """A console that draws boxes and bars in ASCII, and prints users' texts as they are."""

    @property
    def encoding(self) -> str:
        return "ascii"


def create_console() -> Console:
    """Create a console on stdout; rich leaves out colours as NO_COLOR asks."""
    return Console() if _is_utf8(sys.stdout.encoding) else _AsciiConsole()


def _is_utf8(encoding: str | None) -> bool:
    """Return whether the terminal reads UTF-8; in the locale C only Python does (PEP 538, 540)."""
    is_requested = os.environ.get("PYTHONUTF8") == "1"
    is_coerced = sys.flags.utf8_mode and not is_requested
    return not is_coerced and (encoding or "utf-8").lower().replace("-", "") == "utf8"
