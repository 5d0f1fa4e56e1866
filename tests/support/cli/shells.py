"""Runs real shells, each at a terminal of its own, and types keys into them."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from mirage.cli.connection.suggestions import PATIENCE

PATIENCE_S = 60
"""Seconds to wait for output, enough for a busy machine."""


def environment(home: Path, url: str) -> dict[str, str]:
    """Return a user's environment, with the `mirage` of this Python first on PATH."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith("MIRAGE_")}
    commands = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    personal = {"HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home)}
    personal |= {"XDG_DATA_HOME": str(home), "XDG_STATE_HOME": str(home), "TERM": "dumb"}
    personal |= {"PATH": commands, "MIRAGE_URL": url, "LC_ALL": "C.UTF-8"}
    return outer | personal | {PATIENCE: "30"}


def type_at_terminal(
    argv: list[str], keys: str, until: str, environ: dict[str, str], *, ready: str = "READY> "
) -> str:
    """Type `keys` once the terminal shows `ready`; return its output up to the text `until`."""
    terminal, shell_end = pty.openpty()
    shell = subprocess.Popen(
        argv,
        stdin=shell_end,
        stdout=shell_end,
        stderr=shell_end,
        env=environ,
        start_new_session=True,
    )
    os.close(shell_end)
    try:
        output = _read(terminal, ready)
        if not keys:  # the first read may have got all of the output
            return _read(terminal, until, output)
        os.write(terminal, keys.encode())
        return output + _read(terminal, until)
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def _read(terminal: int, until: str, output: str = "") -> str:
    deadline = time.monotonic() + PATIENCE_S
    while until not in output and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            output += os.read(terminal, 4096).decode(errors="replace")
    assert until in output, output
    return output
