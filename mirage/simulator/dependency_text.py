"""Converts dependency lists between Slurm's text and the simulator's form."""

from collections.abc import Sequence
from typing import NamedTuple

from mirage.domain.time_units import MINUTE_S
from mirage.errors import MalformedText
from mirage.simulator.types import Dependency, DependencyKind
from mirage.slurm.text import dependency


class DependencyList(NamedTuple):
    dependencies: tuple[Dependency, ...]
    any_dependency: bool
    """Dependencies with `?` between them: one met dependency suffices."""


def parse_dependency_list(text: str) -> DependencyList:
    """Parse a list of dependencies. Raises MalformedText for a list that cannot be parsed, or
    has what the simulator lacks: tasks of arrays, `singleton`."""
    terms = dependency.parse_all_terms(text)
    return DependencyList(tuple(_parse_term(term) for term in terms), "?" in text)


def _parse_term(term: dependency.Term) -> Dependency:
    if term.job_id is None or term.kind not in set(DependencyKind):
        raise MalformedText(f"the simulator has no dependency {term.text!r}")
    return Dependency(DependencyKind(term.kind), term.job_id, MINUTE_S * term.minutes)


def format_dependency_list(dependencies: Sequence[Dependency], *, any_dependency: bool) -> str:
    """Format the dependencies as squeue prints them of a pending job, none of them met."""
    separator = "?" if any_dependency else ","
    return separator.join(f"{_format_dependency(item)}(unfulfilled)" for item in dependencies)


def _format_dependency(item: Dependency) -> str:
    delay = f"+{item.delay_s // MINUTE_S}" if item.delay_s else ""
    return f"{item.kind}:{item.job_id}{delay}"
