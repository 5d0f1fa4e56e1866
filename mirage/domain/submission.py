"""Describes a successor that somebody other than its user's sbatch submits."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A complete batch job. The receiver reads no directives from the script."""

    script: str
    """The bytes that Slurm stores, beginning with `#!`."""
    environment: Mapping[str, str]
    """The whole environment of the job; Slurm refuses an empty one."""
    directory: str
    """The directory in which the job starts, and into which its output goes by default."""
    name: str
    comment: str
    """The comment, with the link's mark by which the job is recognised."""
    dependency: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of sbatch by their long names, with values as sbatch takes them, empty for options
    without one. Slurm decides what is missing, as with sbatch."""
    arguments: tuple[str, ...] = field(default=())
    """The arguments of the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe that a chain's owner leaves, so that another may submit its next link for them.

    It holds neither the script nor the user's environment. Those stay in files that only the owner
    can read, and the job reads them itself.
    """

    carrier: str
    """The absolute path of the chain's carrier, a file that belongs to the owner."""
    directory: str
    """Where the chain was submitted."""
    name: str
    """The name of the jobs."""
    comment: str = ""
    """The user's own text in the comment, before the mark."""
    umask: int = 0o022
    options: Mapping[str, str] = field(default_factory=dict)
    """Options as in `Submission`, from command line, environment and directives together."""
