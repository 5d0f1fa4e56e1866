"""Runs `mirage`. An error of a command becomes one sentence and an exit code."""

import os
import sys
from collections.abc import MutableMapping

from mirage.domain.sanitize import escape_unprintable
from mirage.errors import MirageError
from mirage.shipped_files import load_client_module

NEWLINE = "\n"


def main() -> None:
    """Exit codes: 0 done, 1 failed, 2 bad input, 3 Slurm, 4 database, 5 service (errors.py)."""
    completed_shell = os.environ.get("_MIRAGE_COMPLETE")
    if completed_shell == "complete_bash":
        _join_option_values(os.environ)
    if not completed_shell:
        # Commands of mirage_slurm; for their help and their usage the code is None.
        code = load_client_module("command.main").answer(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    _run_own_command()


def _run_own_command() -> None:
    from mirage.cli.app import app  # noqa: PLC0415 - typer takes longer than most of those commands

    client_error = load_client_module("client.rest").CommandError
    try:
        app(prog_name="mirage")  # also as `python -m mirage`, which is what the package runs
    except (MirageError, client_error) as error:
        # It may quote a user or Slurm. Some faults come a line each.
        sys.stderr.write(f"mirage: {escape_unprintable(str(error), keep=NEWLINE)}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has enough; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _join_option_values(environ: MutableMapping[str, str]) -> None:
    """Leave out the "=" of `--policy=x`, at which bash splits words: click completes without it."""
    words, at = environ["COMP_WORDS"].split("\n"), int(environ["COMP_CWORD"])
    before = [word for word in words[:at] if word != "="]
    environ["COMP_WORDS"] = "\n".join([*before, *words[at:]])
    environ["COMP_CWORD"] = str(len(before))


if __name__ == "__main__":
    main()
