"""Submits arrays through submitit, which writes the script, calls sbatch, and runs the tasks."""

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.config.settings import SlurmSettings
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError
from mirage.lab.blocks.block_task import BlockTask
from mirage.slurm.text.command_errors import is_unreachable

if TYPE_CHECKING:
    import submitit

_TOO_MANY = re.compile(r"MaxSubmit|job submit limit|Invalid job array specification")
"""Texts of sbatch (22.05 to 26.05): the account or the QOS may not submit so many tasks, or an
array may not have so many (MaxArraySize). The second text has other reasons too."""
_NO_SRUN = "--executor slurm needs Slurm's commands (sbatch, squeue, srun) on PATH"


class TooManyTasks(ClusterRefused):
    """Slurm takes no array of so many tasks now."""


def check_submitit() -> None:
    """Raise InputError if submitit is not installed."""
    try:
        import submitit  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise InputError(
            "--executor slurm needs one more package: pip install 'mirage-provisioner[slurm]'"
        ) from None


def build_parameters(settings: SlurmSettings, comment: str, gpus: int) -> dict[str, Any]:
    """Build submitit's parameters of an array."""
    parameters: dict[str, Any] = {
        "job_name": "mirage-blocks",
        "comment": comment,
        "time": max(1, round(settings.time_limit_h * 60)),
        "mem": f"{round(settings.memory_gib * 1024)}M",
        "cpus_per_task": 1,
        "array_parallelism": settings.at_once,
        # A step would need srun's options beside those of sbatch.
        "use_srun": False,
        "stderr_to_stdout": True,
        # submitit's own default would be refused where wckeys are enforced.
        "wckey": None,
        # A task whose node dies is queued again by Slurm itself.
        "additional_parameters": {"requeue": True},
    }
    site_options = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "gpus_per_node": gpus,
    }
    return parameters | {name: value for name, value in site_options.items() if value}


def submit_array(
    folder: Path,
    tasks: Sequence[BlockTask],
    settings: SlurmSettings,
    comment: str,
    gpus: int,
) -> int:
    """Submit the tasks as an array, and return its job id. A single task is a job without array.

    Raises ClusterUnavailable if it is not known whether Slurm took the array, TooManyTasks, or
    ClusterRefused with what sbatch said.
    """
    from submitit.core.utils import (  # noqa: PLC0415 - an extra
        FailedJobError,
        FailedSubmissionError,
        environment_variables,
    )
    from submitit.helpers import clean_env  # noqa: PLC0415 - an extra

    # Jobs get the variables of this process: not those of a job that it may run in, and no address
    # or password of the database, which libpq reads from PG*.
    own_variables = [name for name in os.environ if name.startswith(("MIRAGE_", "PG"))]
    kept_variables = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    executor = _create_executor(folder, settings)
    executor.update_parameters(**build_parameters(settings, comment, gpus))
    try:
        # submitit prints what sbatch says; here it becomes the error.
        with (
            clean_env(own_variables),
            environment_variables(**kept_variables),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            jobs = executor.submit_array(tasks)
    except FailedSubmissionError as error:
        raise ClusterUnavailable(f"sbatch: {error}") from error
    except FailedJobError as error:
        raise classify_refusal(str(error)) from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    return int(jobs[0].job_id.partition("_")[0])


def classify_refusal(stderr: str) -> ClusterRefused | ClusterUnavailable:
    """Return the error that sbatch's words mean."""
    lines = dict.fromkeys(line.strip() for line in stderr.splitlines() if line.strip())
    message = "; ".join(line.removeprefix("sbatch: error: ") for line in lines)[:500]
    if not message or is_unreachable(stderr):
        return ClusterUnavailable(f"sbatch: {message or 'no word of why'}")
    kind = TooManyTasks if _TOO_MANY.search(stderr) else ClusterRefused
    return kind(
        f"Slurm refuses the jobs: {message}. What they ask for is in slurm.partition, "
        "slurm.account and the other settings slurm.* of the configuration. The user needs an "
        "association with the account (`sacctmgr show associations user=NAME`)"
    )


def adopt_array(folder: Path, array: int, tasks: Sequence[BlockTask | None]) -> None:
    """Give an array of which sbatch brought no answer what its tasks wait for: submitit names each
    task's file by the job id, which nobody knew. None: the task has nothing to do any more."""
    from submitit.core.utils import DelayedSubmission, JobPaths  # noqa: PLC0415 - an extra

    for index, task in enumerate(tasks):
        job_id = f"{array}_{index}" if len(tasks) > 1 else str(array)
        path = JobPaths(folder, job_id=job_id).submitted_pickle
        if path.exists():
            continue
        part = path.with_name(f".{path.name}.part")
        submission = DelayedSubmission(_do_nothing if task is None else task)
        submission.dump(part)
        os.replace(part, path)


def read_last_lines(folder: Path, task: str, most: int = 3) -> Iterator[str]:
    """Return the end of the newest log of a job or task: `123` or `123_4`."""
    from submitit.core.utils import JobPaths  # noqa: PLC0415 - an extra

    with contextlib.suppress(OSError):
        text = JobPaths(folder, job_id=task).stdout.read_text("utf-8", "replace")
        yield from [line.strip() for line in text.splitlines() if line.strip()][-most:]


def _do_nothing() -> None:
    """The task of a block that is made already."""


def _create_executor(folder: Path, settings: SlurmSettings) -> "submitit.SlurmExecutor":
    import submitit  # noqa: PLC0415 - an extra

    python = None if settings.python is None else shlex.quote(str(settings.python))
    try:
        return submitit.SlurmExecutor(folder, max_num_timeout=0, python=python)
    except RuntimeError:
        raise InputError(_NO_SRUN) from None
