"""`mirage train`: from episode tables to an artefact that decides."""

import json
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.options import ConfigOption, get_models_folder
from mirage.cli.policies.trainers import AgentTrainer, Trainer, TrainingRequest, TreeTrainer
from mirage.cli.ui.study_output import TERMINAL
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.errors import InputError
from mirage.learn.settings import load_settings
from mirage.policy import registry
from mirage.studies.output_check import check_makeable
from mirage.studies.tables.table_plan import warn_if_beyond_trace
from mirage.studies.tables.twin_asking import add_twin_forecasts

app = typer.Typer()


class FamilyName(StrEnum):
    FOREST = "forest"
    XGBOOST = "xgboost"
    ENSEMBLE = "ensemble"
    DQN = "dqn"
    POLICY_GRADIENT = "policy-gradient"


class EncoderName(StrEnum):
    MLP = "mlp"
    TRANSFORMER = "transformer"
    MOE = "moe"


_AGENTS = (FamilyName.DQN, FamilyName.POLICY_GRADIENT)


@app.command("train")
def train_policy(
    family: Annotated[FamilyName, typer.Argument(help="The kind of model.")],
    words: Annotated[list[Path], typer.Argument(metavar="E.npz...", help="Episode tables.")],
    *,
    out: Annotated[
        Path, typer.Option(metavar="models/NAME/VERSION", help="A folder that is not there yet.")
    ],
    encoder: Annotated[
        EncoderName | None, typer.Option(help="Of an agent; mlp unless given.")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(metavar="models/NAME/VERSION", help="An agent that training goes on from."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Hyper-parameters to change.")
    ] = None,
    twin: Annotated[
        bool | None,
        typer.Option(
            "--twin/--no-twin",
            help="Learn from what the twin foretells too. It is asked first where it was not yet, "
            "which takes the trace. Default: where all tables have its answers.",
        ),
    ] = None,
    windows: Annotated[
        int, typer.Option("--folds", min=1, help="Windows of later weeks to be judged on.")
    ] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Kept in the card: whose data these are.")
    ] = "",
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Train a policy on episode tables.

    It is judged on rolling windows first: fitted on what was known before each, and asked to decide
    in it. Then it is fitted on everything, converted to ONNX, and compared with what was converted.
    docs/train.md and docs/agents.md say how it decides and what the figures mean. Validation weeks
    do not belong among the tables.
    """
    _check_out(out)
    tables = [EpisodeTable.load(path) for path in words]
    for path, table in zip(words, tables, strict=True):
        warn_if_beyond_trace(path, table, TERMINAL)
    _check_loads(words, tables)
    under = get_models_folder(config)
    with_twin = all(table.twins is not None for table in tables) if twin is None else twin
    maker = _create_trainer(family, encoder, init, settings, seed, under=under, twin=with_twin)
    if with_twin:
        for path, table in zip(words, tables, strict=True):
            add_twin_forecasts(path, table, TERMINAL)
    begun = time.perf_counter()
    made = maker.train_model(tables, TrainingRequest(words, out, windows, seed))
    card = made.card | {"note": note, "wall_s": round(time.perf_counter() - begun, 1)}
    _save_artefact(out, card, made.graph, made.weights)
    maker.clean_up()
    told = ("encoder", "wall_s", "seed", "boundary", "fit", "parity", "metrics")
    report = {
        "out": str(out),
        "family": str(family),
        "bytes": len(made.graph),
        **{key: card[key] for key in told if key in card},
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        Console().print(_render_metrics(report))


def _check_loads(paths: Sequence[Path], tables: Sequence[EpisodeTable]) -> None:
    """A model is for chains of which it was judged, and that is at the trace's own load."""
    logged = {_build_chain_key(table) for table in tables if table.about.has_logged_load}
    for path, table in zip(paths, tables, strict=True):
        if _build_chain_key(table) not in logged:
            raise InputError(
                f"{path} is of {table.about.load} times the load: give a table of the same chains "
                "as logged too, by which the model is judged"
            )


def _build_chain_key(table: EpisodeTable) -> tuple[object, ...]:
    about = table.about
    return about.cluster.get("name"), about.partition, about.nodes, about.time_limit_s


def _create_trainer(
    family: FamilyName,
    encoder: EncoderName | None,
    init: str | None,
    changed: Path | None,
    seed: int,
    *,
    under: Path,
    twin: bool,
) -> Trainer:
    settings = load_settings(changed)
    if family in _AGENTS:
        start = None if init is None else registry.resolve_folder(init, under)
        chosen = encoder or EncoderName.MLP
        return AgentTrainer(family, chosen, settings, seed, init=start, twin=twin)
    if encoder or init:
        raise InputError(f"--encoder and --init are for agents, not for {family}")
    return TreeTrainer(family, settings, seed, twin=twin)


def _save_artefact(out: Path, card: dict[str, Any], graph: bytes, weights: bytes | None) -> None:
    from mirage.learn.artefact.model_card import save_artefact  # noqa: PLC0415 - an extra

    save_artefact(out, card, graph, weights)


def _check_out(out: Path) -> None:
    """Said before the long work, not after it."""
    if not registry.is_version("/".join(out.parts[-3:])):
        raise InputError(f"--out {out}: a model's folder is models/NAME/VERSION")
    if out.exists():
        raise InputError(f"{out} is there already: give another version")
    check_makeable(out)


def _render_metrics(report: dict[str, Any]) -> Table:
    table = Table(
        title=report["out"], caption="on rolling windows of later weeks, mean per hand-over"
    )
    table.add_column("policy")
    for column in ("interruption h", "overlap h", "zero %", "cost h", "gap closed"):
        table.add_column(column, justify="right")
    for name, by_class in report["metrics"]["policies"].items():
        told = by_class["all"]
        figures = ("interruption_h", "overlap_h", "zero_interruption_pct", "cost_h", "gap_closed")
        table.add_row(name, *("" if told[f] is None else f"{told[f]:.2f}" for f in figures))
    return table
