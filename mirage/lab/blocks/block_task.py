"""What a job does: it reads its input, makes one block in a folder of its own, and leaves a result.

The folder of the work, on a file system that the nodes share:

input.pickle       the common input, whose values name the folder; input.sha256: its sum
arrays.json        which arrays were submitted (array_ledger.py)
tasks/             submitit's: what each task is called with, and its log
results/KEY        the result of a block (block_results.py)
results/.KEY.JOB   a block that job JOB is making
"""

import contextlib
import hashlib
import os
import pickle
import time
from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mirage.domain.time_units import DAY_S
from mirage.errors import InputError, MirageError
from mirage.lab.blocks.block_executor import MakerFactory
from mirage.lab.blocks.block_results import write_result
from mirage.lab.whole_files import remove_path
from mirage.service import path_security

INPUT = "input.pickle"
_SUM = "input.sha256"
_PREFIX = "blocks-"
KEPT_S = 30 * DAY_S
"""Works that nobody has gone on with for so long are removed."""


@dataclass(frozen=True, slots=True)
class BlockTask:
    """A block to be made by a job. submitit pickles it, and calls it in the job."""

    work: Path
    """The folder of the work."""
    key: str
    """The name of the block's result."""
    name: str
    """The name of the block's file."""
    part: Sized

    def __call__(self) -> None:
        making = self._open_folder()
        maker = load_input(self.work)()
        place = self.work / "results" / self.key
        try:
            files = maker.make_block(making / self.name, self.part)
        except MirageError as error:
            write_result(making, place, [], str(error))
        else:
            write_result(making, place, files, None)

    def _open_folder(self) -> Path:
        """Open the job's folder. A job that ended early has left stages there: its folder is
        renamed, so that the job, if it still runs, writes nothing any more."""
        results = self.work / "results"
        job = f"{os.environ['SLURM_JOB_ID']}-{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        making = results / f".{self.key}.{job}"
        for left in sorted(results.glob(f".{self.key}.*")):
            with contextlib.suppress(OSError):
                os.rename(left, making)
        making.mkdir(exist_ok=True)
        return making


def save_input(folder: Path, create_maker: MakerFactory[Any]) -> Path:
    """Save the common input in the folder of its work, below `folder`, and return that folder.

    Raises InputError if it cannot be written, or if somebody else could replace it.
    """
    work = folder / f"{_PREFIX}{_compute_key(create_maker)}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It names users, whom PrivateData may hide from others.
        work.mkdir(mode=0o700, exist_ok=True)
        # Jobs run what is pickled there. Its name can be told, so somebody may have made it before.
        if fault := path_security.find_fault(work):
            raise InputError(
                f"slurm.folder holds what jobs run under your account, and {fault}. Name a folder "
                "that is yours, in and above which nobody else may write"
            )
        _remove_old_works(folder)
        (work / "results").mkdir(exist_ok=True)
        if not _has_whole_input(work):
            pickled = pickle.dumps(create_maker)
            for name, content in ((INPUT, pickled), (_SUM, _sum(pickled).encode())):
                part = work / f".{name}.part"
                part.write_bytes(content)
                os.replace(part, work / name)
    except OSError as error:
        raise InputError(f"{work} cannot be written: {error.strerror}") from error
    return work


def _compute_key(create_maker: MakerFactory[Any]) -> str:
    """Hash the values of the input. Two processes may pickle equal values into other bytes: which
    of the equal strings are one object is chance. Without its memo, pickle does not look at that.
    """
    digest = hashlib.sha256()
    pickler = pickle.Pickler(SimpleNamespace(write=digest.update))
    pickler.fast = True
    pickler.dump(create_maker)
    return digest.hexdigest()[:32]


def _has_whole_input(work: Path) -> bool:
    try:
        return _sum((work / INPUT).read_bytes()) == (work / _SUM).read_text()
    except OSError:
        return False


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def remove_work(work: Path) -> None:
    """Remove the folder of a work. A job that still ends writes nothing into it any more, since the
    folder has another name by then."""
    over = work.with_name(f"{work.name}.over")
    with contextlib.suppress(OSError):
        os.rename(work, over)
    remove_path(over)


def _remove_old_works(folder: Path) -> None:
    for work in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - work.stat().st_mtime > KEPT_S:
                remove_path(work)


def load_input(work: Path) -> MakerFactory[Any]:
    """Load the common input. Raises OSError if it is not the one that was saved."""
    if not _has_whole_input(work):
        raise OSError(f"{work / INPUT} is not what was saved there")
    create_maker: MakerFactory[Any] = pickle.loads((work / INPUT).read_bytes())  # noqa: S301 - nobody else could write it (save_input)
    return create_maker
