"""Describes a successor that somebody other than its user's sbatch submits."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch job in full: whoever takes it reads no directives out of the script."""

    script: str
    """The bytes that Slurm stores, beginning with `#!`."""
    environment: Mapping[str, str]
    """The whole environment of the job; Slurm refuses an empty one."""
    directory: str
    """Where the job starts, and where its output goes unless an option says otherwise."""
    name: str
    comment: str
    """Holds the link's mark, by which the job is known again."""
    dependency: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of sbatch, by their long names, as sbatch takes their values; empty for those without one.
    What is missing is left to Slurm, as a missing option of sbatch is."""
    arguments: tuple[str, ...] = field(default=())
    """The script's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe that a chain's owner leaves, so that another may submit its next link for them.

    It holds neither the script nor the user's environment. Those stay in files that only the owner
    can read, and the job reads them itself.
    """

    carrier: str
    """The absolute path of the chain's carrier, a file of the owner's."""
    directory: str
    """Where the chain was submitted."""
    name: str
    """Of the jobs."""
    comment: str = ""
    """The user's own words, before the mark."""
    umask: int = 0o022
    options: Mapping[str, str] = field(default_factory=dict)
    """As in `Submission`: what command line, environment and directives came to."""
