"""What a successor is made of where somebody else than its user's sbatch submits it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch job in full: whoever takes it reads no directives out of the script.

    Empty text and None leave a choice to Slurm, as a missing option of sbatch does.
    """

    script: str
    """The bytes that Slurm stores, beginning with `#!`."""
    environment: Mapping[str, str]
    """The whole environment of the job; Slurm refuses an empty one."""
    directory: str
    """Where the job starts, and where its output goes unless `output` says otherwise."""
    name: str
    comment: str
    """Holds the link's mark, by which the job is known again."""
    partition: str = ""
    account: str = ""
    qos: str = ""
    dependency: str = ""
    time_limit_s: int | None = None
    """Rounded up to Slurm's whole minutes."""
    nodes: int = 1
    tasks: int | None = None
    cpus_per_task: int | None = None
    gres: str = ""
    """Per node, as `--gres` takes it: `gpu:a100:8`."""
    exclusive: bool = False
    output: str = ""
    error: str = ""
    arguments: tuple[str, ...] = field(default=())
    """The script's own."""
