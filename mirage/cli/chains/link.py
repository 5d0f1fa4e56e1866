"""`mirage handover` and `mirage done`: run the plugin's program mirage-link inside a chain's job.

Compute nodes without the rest of Mirage have mirage-link alone.
"""

import os
from typing import Any, NoReturn

import typer

from mirage.errors import MirageError
from mirage.shipped_files import get_data_dir

app = typer.Typer(name="link")

PASSED_ON: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}


@app.command("handover", **PASSED_ON)
def run_handover(context: typer.Context) -> None:
    """Inside a job of a chain: hand over to the next job, or take over.

    The verbs are wait, ready, release, request and status. docs/use/handover.md explains them.
    """
    _execute_link_program("handover", *context.args)


@app.command("done", **PASSED_ON)
def mark_done(context: typer.Context) -> None:
    """Inside a job of a chain: say that the chain's work is finished. No further job starts."""
    _execute_link_program("done", *context.args)


def _execute_link_program(*words: str) -> NoReturn:
    program = get_data_dir("slurm_plugin") / "mirage-link"
    try:
        os.execv(program, [str(program), *words])  # noqa: S606 - our own program, no shell
    except OSError as error:
        raise MirageError(f"{program} cannot be run: {error.strerror}") from error
