"""Static checks of what is shipped and is no Python 3.11: `python -m tests.static` (make check).

ruff's rules of security over the plugin, which is Python 3.6 and so outside ruff's own run, and
shellcheck over all shell. Without shellcheck (Debian's package) that is said, and in CI a failure.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.paths import CHECKOUT, PLUGIN

_FOLDERS = (".ci", "deploy", "slurm_plugin", "tests")
_PYTHON = re.compile(rb"#!.*\bpython3\b")
_SHELL = re.compile(rb"#!\s*/(usr/)?bin/(env +)?(ba|da)?sh\b")

_CARRIER_STAYS = (
    "SC1007",  # `a= b=` empties both; the house's way
    "SC2030",  # what a subshell changes is meant for it alone
    "SC2031",
    "SC2317",  # functions that are called by a name in a variable
)
_HEAD = ("append", "chain", "cwd", "dir", "links", "offset", "size")
"""Settings that stand above the core and that nothing in it sets; the wrapper writes them."""


def main() -> int:
    failed = subprocess.run(security_argv(), cwd=CHECKOUT, check=False).returncode != 0
    if shutil.which("shellcheck") is None:
        sys.stderr.write("left out: shellcheck over the shell (Debian's package shellcheck)\n")
        return int(failed or os.environ.get("CI") == "true")
    said = [*complaints_of_scripts(), *complaints_of_carrier()]
    sys.stderr.writelines(f"{line}\n" for line in said)
    return int(failed or bool(said))


def security_argv() -> list[str]:
    ruff = str(Path(sys.executable).with_name("ruff"))
    options = ["--isolated", "--no-cache", "--select=S,RUF100", "--target-version=py37"]
    return [ruff, "check", *options, *map(str, plugin_programs())]


def plugin_programs() -> list[Path]:
    """Python of 3.6, whatever it is called."""
    files = (path for path in _files() if path.is_relative_to(PLUGIN))
    return [path for path in files if path.suffix == ".py" or _begins(path, _PYTHON)]


def shell_scripts() -> list[Path]:
    return [path for path in _files() if _begins(path, _SHELL)]


def complaints_of_scripts() -> Iterator[str]:
    yield from _shellcheck(shell_scripts())


def complaints_of_carrier() -> Iterator[str]:
    """Of the carrier's pieces as one, since each uses what others define; by piece and line."""
    head = ["#!/bin/sh", *(f"mirage_{name}=x" for name in _HEAD)]
    lines, places = list(head), [("the head", n) for n in range(1, len(head) + 1)]
    for name in carrier_pieces():
        piece = (PLUGIN / name).read_text().split("\n")
        lines += piece
        places += [(f"slurm_plugin/{name}", n) for n in range(1, len(piece) + 1)]
    options = ["--exclude=" + ",".join(_CARRIER_STAYS), "--format=json", "-"]
    for found in json.loads(_asked(options, "\n".join(lines))):
        name, line = places[found["line"] - 1]
        yield f"{name}:{line}: {found['message']} [SC{found['code']}]"


def carrier_pieces() -> list[str]:
    """In the order in which they travel."""
    sys.path.insert(0, str(PLUGIN))
    try:
        pieces = importlib.import_module("mirage_wrapper.carrier").PIECES
    finally:
        sys.path.remove(str(PLUGIN))
    return [*(f"carrier_{piece}.sh" for piece in pieces), "carrier.sh"]


def _shellcheck(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        yield from _asked(["--format=gcc", str(path.relative_to(CHECKOUT))]).splitlines()


def _asked(options: Sequence[str], text: str | None = None) -> str:
    words = ["shellcheck", "--norc", *options]
    done = subprocess.run(
        words, cwd=CHECKOUT, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode > 1:  # 1: there are complaints
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def _files() -> list[Path]:
    found = (path for folder in _FOLDERS for path in (CHECKOUT / folder).rglob("*"))
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def _begins(path: Path, line: re.Pattern[bytes]) -> bool:
    with path.open("rb") as file:
        return line.match(file.readline(200)) is not None


if __name__ == "__main__":
    sys.exit(main())
