"""The console that commands print on: in plain ASCII where the locale is not UTF-8."""

import os
import sys

from rich.console import Console


class _AsciiConsole(Console):
    """rich draws its boxes and bars by this; what users wrote is printed as it is."""

    @property
    def encoding(self) -> str:
        return "ascii"


def create_console(*, stderr: bool = False) -> Console:
    """Colours only on a terminal and without NO_COLOR, which rich sees to."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr) if _is_utf8(stream.encoding) else _AsciiConsole(stderr=stderr)


def _is_utf8(encoding: str | None) -> bool:
    """Python writes UTF-8 in the locale C too (PEP 538, 540); the terminal need not read it."""
    asked = os.environ.get("PYTHONUTF8") == "1"
    coerced = sys.flags.utf8_mode and not asked
    return not coerced and (encoding or "utf-8").lower().replace("-", "") == "utf8"
