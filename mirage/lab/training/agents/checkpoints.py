"""Saves each stage of a long training until the whole training is done.

A stage begins with its own seed. A saved stage is therefore the same as the stage that would be
trained again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.errors import InputError
from mirage.lab.training.artefact import safetensors_io
from mirage.lab.training.artefact.safetensors_io import Weights

Facts = dict[str, Any]
Stage = tuple[Weights, Facts]


@dataclass(frozen=True, slots=True)
class TrainingCheckpoints:
    """Checkpoints kept as files in a folder."""

    folder: Path
    on_stage: Callable[[], None] = lambda: None
    """Called at the end of each stage."""

    @classmethod
    def open_beside(cls, out: Path, plan: Mapping[str, Any]) -> "TrainingCheckpoints":
        """Open checkpoints in a hidden folder beside `out`. The folder's name is a hash of
        `plan`."""
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
        return cls(out.with_name(f".{out.name}.{digest[:16]}"))

    def __len__(self) -> int:
        """Count the checkpoints."""
        return len(list(self.folder.glob("*.safetensors")))

    def load_or_make(self, name: str, make: Callable[[], Stage]) -> Stage:
        """Load the stage of that name, or make and save it. Raises InputError if the file cannot be
        written."""
        path = self.folder / f"{name}.safetensors"
        if path.is_file():
            weights, metadata = safetensors_io.load_weights(path)
            stage = weights, json.loads(metadata["facts"])
        else:
            stage = make()
            self._save_stage(path, stage)
        self.on_stage()
        return stage

    def _save_stage(self, path: Path, stage: Stage) -> None:
        part = path.with_suffix(".part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(safetensors_io.pack_weights(stage[0], {"facts": json.dumps(stage[1])}))
            os.replace(part, path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    def delete_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
