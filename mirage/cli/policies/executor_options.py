"""The options that say who makes the blocks of a long command: this machine, or jobs of Slurm."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.errors import InputError

if TYPE_CHECKING:
    from mirage.config.settings import Settings
    from mirage.lab.blocks.block_executor import BlockExecutor


class ExecutorName(StrEnum):
    LOCAL = "local"
    SLURM = "slurm"


ExecutorOption = Annotated[
    ExecutorName,
    typer.Option(
        help="Who does the work: `local`: processes of this machine; `slurm`: jobs of Slurm, by "
        "the settings slurm.* of the configuration (docs/admin/executor.md)."
    ),
]
GpusOption = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="With --executor slurm: ask for N GPUs for each job that trains agents, where the "
        "partition takes no job without one. Mirage itself trains on one core.",
    ),
]


def build_executor(
    name: ExecutorName, processes: int, settings: "Settings | Path | None", gpus: int = 0
) -> "BlockExecutor":
    """Build the executor. `settings`: the settings, or their file, which only `slurm` reads.

    Raises InputError if the settings do not fit, or a package is missing.
    """
    if name is ExecutorName.LOCAL:
        from mirage.lab.blocks.local_processes import LocalProcesses

        if gpus:
            raise InputError("--gpus is for --executor slurm")
        return LocalProcesses(processes)
    from mirage.cli.ui.study_output import TERMINAL
    from mirage.config.settings import Settings, load_settings
    from mirage.lab.blocks.slurm_arrays import SlurmArrays

    loaded = settings if isinstance(settings, Settings) else load_settings(settings)
    return SlurmArrays(loaded.slurm, TERMINAL.warn, gpus)
