"""`mirage train`: trains a policy on episode tables."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mirage.cli.connection.suggestions import suggest_models
from mirage.cli.options import ConfigOption, JsonOption, get_models_folder
from mirage.cli.policies.executor_options import (
    ExecutorName,
    ExecutorOption,
    GpusOption,
    build_executor,
)
from mirage.cli.policies.figure_tables import render_metrics
from mirage.cli.ui.study_output import TERMINAL
from mirage.lab.training.trainers import (
    EncoderName,
    FamilyName,
    InterruptedTraining,
    TrainingRequest,
)

app = typer.Typer()

_AFTER_CTRL_C = 130
"""The exit code that shells report after Ctrl-C."""


@app.command("train")
def train_policy(
    family: Annotated[FamilyName, typer.Argument(help="The kind of model.")],
    words: Annotated[
        list[Path],
        typer.Argument(metavar="E.npz...", help="Tables written by `mirage episodes`."),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            metavar="models/NAME/VERSION",
            help="Write the model into this folder, which must not exist yet.",
        ),
    ],
    encoder: Annotated[
        EncoderName | None, typer.Option(help="The network of an agent. Default: mlp.")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="models/NAME/VERSION",
            help="Continue the training of this agent.",
            autocompletion=suggest_models,
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Read hyper-parameters from this file."),
    ] = None,
    twin: Annotated[
        bool | None,
        typer.Option(
            "--twin/--no-twin",
            help="Learn from the twin's forecasts too. If a table lacks them, the command computes "
            "them first, from the trace. Default: yes, if all tables have them.",
        ),
    ] = None,
    windows: Annotated[
        int,
        typer.Option("--folds", min=1, help="The number of windows of later weeks to judge on."),
    ] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    note: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="A note for the model's card, such as whose data were used."
        ),
    ] = "",
    executor: ExecutorOption = ExecutorName.LOCAL,
    gpus: GpusOption = 0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a policy on episode tables.

    The command trains on the weeks before each of some rolling windows, and lets the policy decide
    in the window, as `mirage evaluate` does: the table shows the figures, the cheapest policy
    first. The model itself is trained on all weeks, converted to ONNX, and checked: the converted
    model answers as the original does. Of each link a model sees one instant an hour, of links
    shorter than 12 h more.

    Forests, xgboost and the ensemble need the extra `trees`, agents (dqn, policy-gradient) the
    extra `train`.

    docs/research/train.md and docs/research/agents.md explain the models and the figures. Do not
    give tables of validation weeks.
    """
    from mirage.lab.tables.table_plan import count_cores
    from mirage.lab.training.artefact_training import train_artefact

    blocks = build_executor(executor, count_cores(), config, gpus)
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
        report = train_artefact(request, TERMINAL, blocks)
    except InterruptedTraining as stopped:
        typer.echo(
            f"mirage: {stopped.stages} stages are kept: run the same command again to go on",
            err=True,
        )
        raise typer.Exit(_AFTER_CTRL_C) from None
    if as_json:
        typer.echo(json.dumps(report))
        return
    typer.echo(report["out"])
    table = render_metrics(report["metrics"])
    if table is not None:
        Console().print(table)
