"""Defines how a study reports warnings and progress while it works.

The caller decides where the reports go.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StudyOutput:
    """Two ways to report. The command line shows both on standard error."""

    warn: Callable[[str], None]
    """Called with one sentence of warning."""
    show_progress: Callable[[str, int], AbstractContextManager[Callable[..., None]]]
    """Called with a description of the work and its number of steps. It returns a context whose
    value is called at each step, with the number of finished steps or without."""
