"""Defines a block of work, and who makes blocks: processes of this machine, or jobs of Slurm."""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

PointsCallback = Callable[[int], None]
Part = TypeVar("Part", bound=Sized)
"""What a block is made of. Its length is the number of its points, which progress counts."""
Part_contra = TypeVar("Part_contra", bound=Sized, contravariant=True)


class BlockMaker(Protocol[Part_contra]):
    """The work of one process. It makes blocks in the order in which they are listed."""

    def make_block(self, path: Path, part: Part_contra) -> Sequence[Path]:
        """Write the block, whole or not at all, and return its files and folders: `path`, or what
        stands for `path`, and what lies beside it."""


MakerFactory = Callable[[], BlockMaker[Part]]
"""Creates a block maker. It is pickled, since it is sent to other processes."""


@dataclass(frozen=True, slots=True)
class BlockWork(Generic[Part]):
    """Blocks that are to be made, and how."""

    create_maker: MakerFactory[Part]
    missing_blocks: Mapping[Path, Part]
    """The file of each block, and what the block is made of, in the order of time."""
    may_use_gpus: bool = False
    """Whether the blocks are of a kind for which GPUs may be asked."""


class BlockExecutor(Protocol):
    """Makes blocks. Whoever makes them, the bytes of their files are the same."""

    @property
    def is_local(self) -> bool:
        """Whether the blocks are made on this machine, whose pace can be measured."""

    def make_blocks(self, work: BlockWork[Part], on_points: PointsCallback) -> None:
        """Make each block. `on_points` is called with the number of a block's points when it is
        finished. What it raises ends the work, and finished blocks are kept."""
