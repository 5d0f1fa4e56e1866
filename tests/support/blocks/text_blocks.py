"""Blocks that are a line of text: made at once, when a gate opens, at the second try, or never."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mirage.errors import InputError
from mirage.lab.blocks.block_executor import MakerFactory


@dataclass(frozen=True, slots=True)
class TextMaker:
    """Writes the points of each block."""

    gate: str | None = None
    """A block is not written before this file is there."""
    crashes: Path | None = None
    """A folder in which each try leaves a file; a block's first try ends its process."""
    is_lost: bool = False
    """Whether each try ends its process."""
    refusal: str | None = None
    """Why no block can be made."""

    def make_block(self, path: Path, part: range) -> Sequence[Path]:
        if self.refusal is not None:
            raise InputError(self.refusal)
        if self.is_lost or (self.crashes is not None and self._count_tries(path.name) == 1):
            os._exit(1)
        while self.gate is not None and not os.path.exists(self.gate):
            time.sleep(0.2)
        path.write_text(f"{list(part)}\n")
        return [path]

    def _count_tries(self, name: str) -> int:
        assert self.crashes is not None
        self.crashes.joinpath(f"{name}.{os.getpid()}-{time.monotonic_ns()}").touch()
        return len(list(self.crashes.glob(f"{name}.*")))


def list_blocks(folder: Path, count: int) -> Mapping[Path, range]:
    """Blocks of three points."""
    folder.mkdir(exist_ok=True)
    return {folder / f"block-{n}.txt": range(3 * n, 3 * n + 3) for n in range(count)}


def begin(**fields: object) -> MakerFactory[range]:
    return partial(TextMaker, **fields)  # type: ignore[arg-type]


def read_blocks(blocks: Mapping[Path, range]) -> list[str]:
    return [path.read_text() for path in blocks]
