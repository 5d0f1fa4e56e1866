"""`mirage train`: from episode tables to an artefact that decides."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.options import ConfigOption, JsonOption, get_models_folder
from mirage.cli.ui.study_output import TERMINAL
from mirage.studies.training.artefact_training import train_artefact
from mirage.studies.training.trainers import (
    EncoderName,
    FamilyName,
    InterruptedTraining,
    TrainingRequest,
)

app = typer.Typer()

_AFTER_CTRL_C = 130
"""As shells say."""


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
    as_json: JsonOption = False,
) -> None:
    """Train a policy on episode tables.

    It is judged on rolling windows first: fitted on what was known before each, and asked to decide
    in it. Then it is fitted on everything, converted to ONNX, and compared with what was converted.
    docs/research/train.md and docs/research/agents.md say how it decides and what the figures
    mean. Validation weeks do not belong among the tables.
    """
    request = TrainingRequest(
        family=family,
        paths=words,
        out=out,
        find_models=partial(get_models_folder, config),
        encoder=encoder,
        init=init,
        settings=settings,
        twin=twin,
        windows=windows,
        seed=seed,
        note=note,
    )
    try:
        report = train_artefact(request, TERMINAL)
    except InterruptedTraining as stopped:
        typer.echo(f"mirage: {stopped.stages} stages kept; the same command goes on", err=True)
        raise typer.Exit(_AFTER_CTRL_C) from None
    if as_json:
        typer.echo(json.dumps(report))
    else:
        Console().print(_render_metrics(report))


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
