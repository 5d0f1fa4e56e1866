"""Trains models as blocks, by jobs of another machine. What a training reads goes along: the
tables, the settings, and the agent from which training continues."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.trainers import AGENTS, TrainingRequest
from mirage.lab.whole_files import remove_path
from mirage.policies import registry
from mirage.policies.registry import MODELS
from mirage.twin import table_forecasts

Train = Callable[[TrainingRequest, StudyOutput], object]
_SETTINGS = "settings.toml"


@dataclass(frozen=True, slots=True)
class TrainingMaker:
    """One job: it trains models from the same tables."""

    train: Train
    files: Mapping[str, bytes]
    """What the trainings read, by its path below a folder."""

    def make_block(self, path: Path, part: tuple[TrainingRequest]) -> Sequence[Path]:
        """Train the model into the folder `path`."""
        (request,) = part
        # Stages lie beside a model while it is trained: an earlier job may have left some.
        out = path.parent.joinpath(MODELS, *request.out.parts[-2:])
        remove_path(out)
        with tempfile.TemporaryDirectory(prefix="mirage-train-") as name:
            folder = Path(name)
            for file, content in self.files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_bytes(content)
            local = replace(
                request,
                out=out,
                paths=[folder / table for table in request.paths],
                settings=None if request.settings is None else folder / _SETTINGS,
                find_models=partial(Path, folder / MODELS),
            )
            self.train(local, StudyOutput(logging.getLogger(__name__).warning, _show_nothing))
        remove_path(path)
        os.rename(out, path)
        return [path]


def train_models(
    train: Train,
    requests: Sequence[TrainingRequest],
    output: StudyOutput,
    executor: BlockExecutor,
) -> None:
    """Let `executor` train each model by the function `train`, into its folder.

    All requests have the same tables, settings and start. Raises InputError if a request cannot be
    met.
    """
    if not requests:
        return
    tables = [Path(f"tables/{n}/{path.name}") for n, path in enumerate(requests[0].paths)]
    files = dict(_read_files(requests[0], tables))
    blocks = {
        request.out: (replace(request, paths=tables, find_models=Path),) for request in requests
    }
    work = BlockWork(
        partial(TrainingMaker, train, files),
        blocks,
        may_use_gpus=any(request.family in AGENTS for request in requests),
    )
    with output.show_progress("training", len(requests)) as on_model:
        executor.make_blocks(work, on_model)


def _read_files(request: TrainingRequest, tables: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    for path, table in zip(request.paths, tables, strict=True):
        for source, name in (
            (path, table),
            (table_forecasts.get_twin_path(path), table_forecasts.get_twin_path(table)),
        ):
            if source.exists():
                yield str(name), source.read_bytes()
    if request.settings is not None:
        yield _SETTINGS, request.settings.read_bytes()
    if request.init is not None:
        folder = registry.resolve_folder(request.init, request.find_models())
        for file in sorted(folder.iterdir()):
            yield str(Path(MODELS, *folder.parts[-2:], file.name)), file.read_bytes()


@contextmanager
def _show_nothing(_name: str, _total: int) -> Iterator[Callable[..., None]]:
    yield lambda *_: None
