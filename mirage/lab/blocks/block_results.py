"""The result of a block that a job made: a folder with its files, and a manifest of their sums.

The job renames the folder into place once the manifest is in it. Whoever asked for the block
copies the files, compares the sums of the copies with the manifest, and renames them into place.
So a file that is cut short, or that a job left behind as it ended, never counts as a block.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.errors import InputError
from mirage.lab.whole_files import remove_path

_MANIFEST = "manifest.json"


class BrokenResult(Exception):
    """The files are not those of the manifest."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The result of one block."""

    folder: Path
    sums: dict[str, str]
    """The SHA-256 of each file, by its path below `folder`."""
    refusal: str | None
    """Why the block cannot be made, whoever tries; None: it is made."""

    @classmethod
    def find(cls, folder: Path) -> "BlockResult | None":
        """Read the result; None while there is none. Raises BrokenResult."""
        try:
            document = json.loads((folder / _MANIFEST).read_text("utf-8"))
            return cls(folder, dict(document["sums"]), document["refusal"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BrokenResult(f"its manifest does not read: {error}") from error

    def place(self, target: Path) -> None:
        """Move the files into the folder `target`. Raises BrokenResult if one is not whole, and
        InputError if they cannot be written there."""
        names = sorted({name.split("/")[0] for name in self.sums})
        parts = {name: target / f".{name}.part" for name in names}
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, part in parts.items():
                _copy(self.folder / name, part)
            copied = dict(_sum_files(target, list(parts.values())))
            expected = {f".{_mark_part(name)}": value for name, value in self.sums.items()}
            if copied != expected:
                raise BrokenResult(f"the files of {self.folder} are not those of its manifest")
            for name, part in parts.items():
                os.replace(part, target / name)
        except OSError as error:
            if error.filename is not None and Path(error.filename).is_relative_to(self.folder):
                raise BrokenResult(f"{error.filename}: {error.strerror}") from error
            raise InputError(f"{target} cannot be written: {error.strerror or error}") from error
        finally:
            for part in parts.values():
                remove_path(part)


def write_result(making: Path, place: Path, files: Sequence[Path], refusal: str | None) -> None:
    """Write the manifest of the files in the folder `making`, and rename it to `place`.

    If another job has made the same block meanwhile, its result stays.
    """
    document: dict[str, Any] = {"sums": dict(_sum_files(making, files)), "refusal": refusal}
    with (making / _MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.rename(making, place)
    except OSError:
        if not (place / _MANIFEST).exists():
            raise
        shutil.rmtree(making, ignore_errors=True)


def _mark_part(name: str) -> str:
    """Return the name that a file has while its copy is not compared yet."""
    top, slash, below = name.partition("/")
    return f"{top}.part{slash}{below}"


def _copy(source: Path, target: Path) -> None:
    remove_path(target)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _sum_files(folder: Path, paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Sum the files, and those of folders, once what was written is on the disk."""
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            yield str(file.relative_to(folder)), digest
