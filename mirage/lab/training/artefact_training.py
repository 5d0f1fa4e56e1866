"""Trains an artefact that can decide, from episode tables."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mirage.domain.time_units import MINUTE_S
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.block_executor import BlockExecutor
from mirage.lab.output_check import check_makeable
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.table_plan import warn_if_beyond_trace
from mirage.lab.tables.twin_asking import add_twin_forecasts
from mirage.lab.training.dataset import FEWEST_INSTANTS
from mirage.lab.training.settings import load_settings
from mirage.lab.training.trainers import (
    AGENTS,
    AgentTrainer,
    EncoderName,
    Trainer,
    TrainingRequest,
    TreeTrainer,
)
from mirage.lab.training.training_blocks import train_models
from mirage.policies import registry
from mirage.policies.models.artefact import GRAPH, read_card

_REPORTED = ("encoder", "wall_s", "seed", "fit", "parity", "metrics")
"""Keys of the card that the report shows."""


def train_artefact(
    request: TrainingRequest, output: StudyOutput, executor: BlockExecutor | None = None
) -> dict[str, Any]:
    """Train a model, save it, and return a report.

    `executor`: who asks the twin where that is needed, and trains. None: this machine.

    Raises InputError if the request cannot be met, and InterruptedTraining after Ctrl-C.
    """
    _check_out(request.out)
    tables = [EpisodeTable.load(path) for path in request.paths]
    for path, table in zip(request.paths, tables, strict=True):
        warn_if_beyond_trace(path, table, output)
    _check_loads(request.paths, tables)
    models = request.find_models()
    all_have_twin = all(table.twins is not None for table in tables)
    with_twin = all_have_twin if request.twin is None else request.twin
    if executor is None or executor.is_local:
        trainer = _create_trainer(request, models, twin=with_twin)
        if with_twin:
            _ask_twin(request.paths, tables, output, executor)
        _train_here(request, trainer, tables, output)
    else:
        # The packages for training are needed where it happens, and not here.
        load_settings(request.settings)
        if with_twin:
            _ask_twin(request.paths, tables, output, executor)
        _warn_if_short(tables[0], output)
        train_models(train_artefact, [request], output, executor)
    return _build_report(request)


def _ask_twin(
    paths: Sequence[Path],
    tables: Sequence[EpisodeTable],
    output: StudyOutput,
    executor: BlockExecutor | None,
) -> None:
    for path, table in zip(paths, tables, strict=True):
        add_twin_forecasts(path, table, output, executor)


def _train_here(
    request: TrainingRequest,
    trainer: Trainer,
    tables: Sequence[EpisodeTable],
    output: StudyOutput,
) -> None:
    began = time.perf_counter()
    trained = trainer.train_model(tables, request, output)
    _warn_if_short(tables[0], output)
    card = trained.card | {
        "note": request.note,
        "wall_s": round(time.perf_counter() - began, 1),
        "judging_s": round(trained.judging_s, 1),
    }
    _save_artefact(request.out, card, trained.graph, trained.weights)
    trainer.clean_up()


def _build_report(request: TrainingRequest) -> dict[str, Any]:
    card = read_card(request.out)
    return {
        "out": str(request.out),
        "family": str(request.family),
        "bytes": (request.out / GRAPH).stat().st_size,
        **{key: card[key] for key in _REPORTED if key in card},
    }


def _check_loads(paths: Sequence[Path], tables: Sequence[EpisodeTable]) -> None:
    """Raise InputError for chains without a table at the trace's own load.

    A model may decide only for chains that it was judged on, and it is judged at that load.
    """
    logged_keys = {_build_chain_key(table) for table in tables if table.metadata.has_logged_load}
    for path, table in zip(paths, tables, strict=True):
        if _build_chain_key(table) not in logged_keys:
            raise InputError(
                f"{path} was simulated at {table.metadata.load} times the trace's load. A model is "
                "judged at the logged load: give a table of the same chains made without --load, "
                "too"
            )


def _warn_if_short(table: EpisodeTable, output: StudyOutput) -> None:
    """Warn of links that are too short to learn much from."""
    instants = len(table.instant_s) - 1
    if instants < FEWEST_INSTANTS:
        output.warn(
            f"links of {table.metadata.time_limit_s // MINUTE_S} min have {instants} instants at "
            f"which a release is decided: a model learns little from fewer than {FEWEST_INSTANTS}, "
            "so compare its cost with quantile's before you promote it"
        )


def _build_chain_key(table: EpisodeTable) -> tuple[object, ...]:
    metadata = table.metadata
    return metadata.cluster.get("name"), metadata.partition, metadata.nodes, metadata.time_limit_s


def _create_trainer(request: TrainingRequest, models: Path, *, twin: bool) -> Trainer:
    family, seed = request.family, request.seed
    settings = load_settings(request.settings)
    if family in AGENTS:
        init = request.init
        start = None if init is None else registry.resolve_folder(init, models)
        encoder = request.encoder or EncoderName.MLP
        return AgentTrainer(family, encoder, settings, seed, init=start, twin=twin)
    if request.encoder or request.init:
        raise InputError(f"--encoder and --init are for agents, not for {family}")
    return TreeTrainer(family, settings, seed, twin=twin)


def _save_artefact(out: Path, card: dict[str, Any], graph: bytes, weights: bytes | None) -> None:
    from mirage.lab.training.artefact.model_card import save_artefact  # noqa: PLC0415 - an extra

    save_artefact(out, card, graph, weights)


def _check_out(out: Path) -> None:
    """Check the output folder before the long work, not after it."""
    if not registry.is_version("/".join(out.parts[-3:])):
        raise InputError(f"--out {out} is no name of a model: give a folder models/NAME/VERSION")
    if out.exists():
        raise InputError(f"{out} already exists: give another version")
    check_makeable(out)
