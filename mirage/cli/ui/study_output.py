"""Prints the notes and bars of a study on standard error."""

import typer

from mirage.cli.ui.progress import show_progress
from mirage.lab.study_output import StudyOutput


def print_note(text: str) -> None:
    typer.echo(f"mirage: note: {text}", err=True)


TERMINAL = StudyOutput(print_note, show_progress)
