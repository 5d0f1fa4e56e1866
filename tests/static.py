"""Static checks of what ruff and mypy do not read: `python -m tests.static` (make style).

shellcheck over all shell, luacheck over Slurm's hooks, the C compiler's warnings, Ruby's warnings,
and codespell. A program that is absent is named, and in CI that is a failure.
`python -m tests.static lua` checks one kind alone: shell, lua, c, ruby or spelling.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import CHECKOUT, PLUGIN

_FOLDERS = (".ci", "benchmarks", "deploy", "slurm_plugin", "tests")
_PYTHON = re.compile(rb"#!.*\bpython3\b")
_SHELL = re.compile(rb"#!\s*/(usr/)?bin/(env +)?(ba|da)?sh\b")

_CARRIER_STAYS = (
    "SC1007",  # `a= b=` empties both; the house's way
    "SC2030",  # what a subshell changes is meant for it alone
    "SC2031",
    "SC2317",  # functions that are called by a name in a variable
    "SC2329",
    "SC3067",  # every sh of Linux has `test -O`
)
_HEAD = ("append", "chain", "cwd", "dir", "links", "offset", "size")
"""Settings that stand above the core and that nothing in it sets; the wrapper writes them."""
_SPANK = Path("/usr/include/slurm/spank.h")
_WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")


@dataclass(frozen=True)
class Check:
    """One kind of check: its program, what brings that, and the complaints, a line each."""

    program: str
    brought_by: str
    complaints: Callable[[], Iterator[str]]


def main(kinds: Sequence[str] = ()) -> int:
    """Print complaints and what is left out. Return 1 if there are any; left out counts in CI."""
    failed = False
    for kind in kinds or CHECKS:
        check = CHECKS[kind]
        if find_program(check.program) is None:
            sys.stderr.write(f"left out: {check.program} ({check.brought_by})\n")
            failed |= os.environ.get("CI") == "true"
            continue
        said = list(check.complaints())
        sys.stderr.writelines(f"{line}\n" for line in said)
        failed |= bool(said)
    return int(failed)


def find_program(name: str) -> str | None:
    """Its path: that of this environment, whose version is pinned, before the machine's."""
    folder = Path(sys.executable).parent
    return shutil.which(name, path=str(folder)) or shutil.which(name)


def plugin_programs() -> list[Path]:
    """Python of 3.6, whatever it is called."""
    files = (path for path in _files() if path.is_relative_to(PLUGIN))
    return [path for path in files if path.suffix == ".py" or _begins(path, _PYTHON)]


def shell_scripts() -> list[Path]:
    return [path for path in _files() if _begins(path, _SHELL)]


def complaints_of_shell() -> Iterator[str]:
    for path in shell_scripts():
        told = _asked(["shellcheck", "--norc", "--format=gcc", str(path.relative_to(CHECKOUT))])
        yield from told.splitlines()
    yield from complaints_of_carrier()


def complaints_of_carrier() -> Iterator[str]:
    """Of the carrier's pieces as one, since each uses what others define; by piece and line."""
    head = ["#!/bin/sh", *(f"mirage_{name}=x" for name in _HEAD)]
    lines, places = list(head), [("the head", n) for n in range(1, len(head) + 1)]
    for name in carrier_pieces():
        piece = (PLUGIN / name).read_text().split("\n")
        lines += piece
        places += [(f"slurm_plugin/{name}", n) for n in range(1, len(piece) + 1)]
    options = ["--norc", "--exclude=" + ",".join(_CARRIER_STAYS), "--format=json", "-"]
    for found in json.loads(_asked(["shellcheck", *options], "\n".join(lines))):
        name, line = places[found["line"] - 1]
        yield f"{name}:{line}: {found['message']} [SC{found['code']}]"


def carrier_pieces() -> list[str]:
    """In the order in which they travel."""
    sys.path.insert(0, str(PLUGIN))
    try:
        pieces = importlib.import_module("mirage_slurm.wrapper.carrier").PIECES
    finally:
        sys.path.remove(str(PLUGIN))
    return [f"mirage_slurm/carrier/{piece}.sh" for piece in pieces]


def complaints_of_lua() -> Iterator[str]:
    """By .luacheckrc."""
    found = [str(path.relative_to(CHECKOUT)) for path in _files() if path.suffix == ".lua"]
    yield from _asked(["luacheck", "--formatter=plain", "--codes", *found]).splitlines()


def complaints_of_c() -> Iterator[str]:
    for path in (path for path in _files() if path.suffix == ".c"):
        name = str(path.relative_to(CHECKOUT))
        if "slurm/" in path.read_text() and not _SPANK.exists():
            sys.stderr.write(f"left out: {name} (Slurm's headers: Debian's package libslurm-dev)\n")
            if os.environ.get("CI") == "true":
                yield f"{name}: Slurm's headers are absent"
            continue
        done = _run(["cc", *_WARNINGS, name])
        yield from done.stderr.splitlines()


def complaints_of_ruby() -> Iterator[str]:
    """By `ruby -wc`; of a template only what is no Ruby, since erb's own code has warnings."""
    for path in (path for path in _files() if path.suffix in {".rb", ".erb"}):
        name, text, option = str(path.relative_to(CHECKOUT)), path.read_text(), "-wc"
        if path.suffix == ".erb":
            text, option = _asked(["erb", "-x", "-T", "-", name]), "-c"
        yield from _run(["ruby", option, "-"], text).stderr.replace("-:", f"{name}:").splitlines()


def complaints_of_spelling() -> Iterator[str]:
    """By pyproject.toml's [tool.codespell]."""
    done = _run(["codespell", "--toml", "pyproject.toml"])
    yield from [*done.stdout.splitlines(), *done.stderr.splitlines()]


def _asked(words: Sequence[str], text: str | None = None) -> str:
    done = _run(words, text)
    if done.returncode > 1:  # 1: there are complaints
        raise RuntimeError(f"{words}: {done.stderr}{done.stdout}")
    return done.stdout


def _run(words: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = find_program(words[0])
    return subprocess.run(
        [program or words[0], *words[1:]],
        cwd=CHECKOUT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def _files() -> list[Path]:
    found = (path for folder in _FOLDERS for path in (CHECKOUT / folder).rglob("*"))
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def _begins(path: Path, line: re.Pattern[bytes]) -> bool:
    with path.open("rb") as file:
        return line.match(file.readline(200)) is not None


_EXTRA = "the extra check: make .venv/.installed-check"
CHECKS = {
    "shell": Check("shellcheck", _EXTRA, complaints_of_shell),
    "lua": Check("luacheck", "Debian's package lua-check", complaints_of_lua),
    "c": Check("cc", "Debian's packages gcc and libc6-dev", complaints_of_c),
    "ruby": Check("ruby", "Debian's package ruby", complaints_of_ruby),
    "spelling": Check("codespell", _EXTRA, complaints_of_spelling),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
