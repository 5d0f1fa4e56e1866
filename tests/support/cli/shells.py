"""Real shells at a terminal of their own, and what a person's Tab does in them."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from mirage.cli.connection.suggestions import PATIENCE

PATIENCE_S = 60
"""For a machine that does much else."""


def environment(home: Path, url: str) -> dict[str, str]:
    """Of a person who has the `mirage` of this environment first on PATH."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MIRAGE_")}
    commands = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home)}
    own |= {"XDG_DATA_HOME": str(home), "XDG_STATE_HOME": str(home), "TERM": "dumb"}
    own |= {"PATH": commands, "MIRAGE_URL": url, "LC_ALL": "C.UTF-8"}
    return kept | own | {PATIENCE: "30"}


def typed(
    argv: list[str], keys: str, until: str, environ: dict[str, str], *, ready: str = "READY> "
) -> str:
    """What the terminal shows once `keys` were typed; until `until` stands there."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
    )
    os.close(theirs)
    try:
        shown = _read(ours, ready)
        if not keys:  # all may have come at once
            return _read(ours, until, shown)
        os.write(ours, keys.encode())
        return shown + _read(ours, until)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def _read(terminal: int, until: str, shown: str = "") -> str:
    deadline = time.monotonic() + PATIENCE_S
    while until not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    assert until in shown, shown
    return shown
