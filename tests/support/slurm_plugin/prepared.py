"""Commands that run a program of the plugin after a line of Python of the test."""

import sys
from pathlib import Path

from tests.support.paths import PLUGIN

PATIENTLY = "from mirage_slurm.client import request; request.LIMIT_S = 600.0"
"""A service has ten minutes to answer: a busy machine may stall for longer than the two seconds
that a user waits for it."""
ASKING_PATIENTLY = (
    f"{PATIENTLY}; from mirage_slurm.wrapper import discovery; discovery.ASK_S = 600.0"
)
"""So has an sbatch that is asked which options it has."""


def prepare_program(name: str, line: str) -> list[str]:
    """Return the command that runs `line`, then the module `name` of mirage_slurm as a program."""
    return [
        *(sys.executable, "-IS", "-c"),
        f"import os, sys; sys.path.insert(0, {str(PLUGIN)!r})\n"
        f"import mirage_slurm.{name} as program\n"
        f"{line}\n"
        "sys.exit(program.main(sys.argv))",
    ]


def prepare_wrapper(wrapper: Path, line: str) -> list[str]:
    """Return the arguments with which Python runs `line`, then the wrapped sbatch."""
    return [
        *("-ISB", "-c"),
        f"import sys; sys.path.insert(0, {str(PLUGIN)!r})\n"
        f"{line}\n"
        "from mirage_slurm.wrapper import main\n"
        f"sys.exit(main.main([{str(wrapper)!r}, *sys.argv[1:]]))",
    ]
