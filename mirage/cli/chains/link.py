"""`mirage handover` and `mirage done`: what a link says of its chain, passed on to mirage-link.

The plugin's own program answers, as it does on nodes that have nothing else of Mirage.
"""

import os
from typing import Any, NoReturn

import typer

from mirage.config.paths import get_data_dir
from mirage.errors import MirageError

app = typer.Typer(name="link")

PASSED_ON: dict[str, Any] = {
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
    "add_help_option": False,
}


@app.command("handover", **PASSED_ON)
def run_handover(context: typer.Context) -> None:
    """Inside a link: hand over between links that overlap.

    wait, ready, release, request, status: docs/use/handover.md.
    """
    _execute_link_program("handover", *context.args)


@app.command("done", **PASSED_ON)
def mark_done(context: typer.Context) -> None:
    """Inside a link: its chain's work is finished. No further link begins."""
    _execute_link_program("done", *context.args)


def _execute_link_program(*words: str) -> NoReturn:
    program = get_data_dir("slurm_plugin") / "mirage-link"
    try:
        os.execv(program, [str(program), *words])  # noqa: S606 - our own program, no shell
    except OSError as error:
        raise MirageError(f"{program}: {error.strerror}") from error
