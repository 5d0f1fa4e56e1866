"""The folder of learning, with the finished stages of the run under way.

run/         the run under way; a stage's result is a file that is renamed into place
settle-AT/   the history by which models are judged on the weeks until AT, if time was over
tables/      episode tables by cluster file, shape of chain and week
candidates/  models of earlier runs that were not proposed
shapes.json, pace.json, verdict.json
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.errors import InputError
from mirage.lab.whole_files import write_whole

OLDEST_RUN_S = 36 * 3600
"""A run that began longer ago is not gone on with: its history is no longer the newest."""
PACES = "pace.json"
_BEGUN = "begun.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of learning."""

    path: Path

    @property
    def run(self) -> Path:
        """The folder of the run under way."""
        return self.path / "run"

    @property
    def candidates(self) -> Path:
        return self.path / "candidates"

    @property
    def history(self) -> Path:
        return self.run / "history.parquet"

    def create(self) -> None:
        """Create the folder if it is not there. Raises InputError if that is impossible."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be created: {error.strerror}") from error

    def open_run(self, now: int) -> dict[str, Any]:
        """Return when and as which version the run under way began; a new run if there is none, or
        if it began too long ago."""
        begun = read_json(self.run / _BEGUN)
        if begun is not None and self.find_open_run(now) is not None:
            return begun
        self.delete_run()
        begun = {"at": now, "version": time.strftime("%Y%m%d", time.gmtime(now))}
        try:
            # The copy of the jobs names users, whom PrivateData may hide from others.
            self.run.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise InputError(f"{self.run} cannot be created: {error.strerror}") from error
        write_json(self.run / _BEGUN, begun)
        return begun

    def find_open_run(self, now: int) -> int | None:
        """Return when the interrupted run began that can go on; None: there is none."""
        begun = read_json(self.run / _BEGUN)
        is_open = begun is not None and now - OLDEST_RUN_S <= begun["at"] <= now
        return int(begun["at"]) if begun is not None and is_open else None

    def delete_run(self) -> None:
        """Delete the run under way. Links to models in it are removed, and not what they name."""
        shutil.rmtree(self.run, ignore_errors=True)


def keep_stage(file: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a stage: as a file has it, else made now and kept in the file."""
    result = read_json(file)
    if result is None:
        result = dict(make())
        write_json(file, result)
    return result


def read_json(file: Path) -> dict[str, Any] | None:
    """Return the object in a file; None if there is none."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(file: Path, value: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all. Raises InputError if that is impossible."""
    write_whole(file, json.dumps(value, indent=1) + "\n")


def move_folder(source: Path, target: Path) -> None:
    """Move a folder, whole or not at all, also to another file system.

    Raises InputError if that is impossible.
    """
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(source, part)
        os.rename(part, target)
        shutil.rmtree(source, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        reason = error.strerror or "the disk is full or the folder is not writable"
        raise InputError(f"{target} cannot be written: {reason}") from error
