"""Defines how a study reports warnings and progress while it works.

The caller decides where the reports go.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StudyOutput:
    """Two ways to be heard; the command line shows both on standard error."""

    warn: Callable[[str], None]
    """Hears one sentence that somebody should read."""
    show_progress: Callable[[str, int], AbstractContextManager[Callable[..., None]]]
    """Of what is done and its number of steps: what it gives is called at each step, or with how
    many were done."""
