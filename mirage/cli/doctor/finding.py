"""A finding of `mirage doctor`: the thing that was checked, the verdict, and what to do."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mirage.errors import ConfigError, MirageError


class Severity(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    """The installation works, but less well than it could."""
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `mirage doctor`. `--json` prints the fields by their names."""

    what: str
    verdict: Severity
    told: str


CheckFunction = Callable[[], tuple[Severity, str]]


def run_check(what: str, check: CheckFunction) -> Finding:
    """Run one check; an error of Mirage's becomes a fault."""
    try:
        return Finding(what, *check())
    except MirageError as error:
        message = error.to_one_line() if isinstance(error, ConfigError) else str(error)
        return Finding(what, Severity.FAULT, message)
