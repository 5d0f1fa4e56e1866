"""`mirage models`: lists, shows, promotes and recalibrates trained policies."""

import json
import time
from dataclasses import asdict
from functools import partial
from getpass import getuser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.connection.suggestions import suggest_models
from mirage.cli.options import ConfigOption, JsonOption, get_models_folder
from mirage.cli.ui.progress import show_activity
from mirage.cli.ui.study_output import TERMINAL
from mirage.errors import MirageError

app = typer.Typer()
models = typer.Typer(no_args_is_help=True)
app.add_typer(models, name="models", help="List, show, promote or recalibrate trained policies.")

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="models/NAME/VERSION", help="The version of a model.", autocompletion=suggest_models
    ),
]


@models.command("list")
def list_models(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List all versions that the service finds, and which version of each name is in use."""
    from mirage.policies import model_catalog

    models_folder = get_models_folder(config)
    rows = [asdict(line) for line in model_catalog.list_versions(models_folder)]
    if as_json:
        typer.echo(json.dumps({"models_dir": str(models_folder), "models": rows}))
        return
    table = Table(caption=f"in {models_folder}")
    for column in ("model", "family", "promoted", "trained on", "gap closed", "fault"):
        table.add_column(column)
    for line in rows:
        table.add_row(*(_format_cell(value) for value in line.values()))
    Console().print(table)


@models.command("show")
def show_model(
    model: ModelArgument, *, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show a model's card: what it was trained on, and its results. Checks the model's files."""
    from mirage.policies import model_catalog, registry

    loaded_model = registry.load_model(model, get_models_folder(config))
    card = {"model": loaded_model.name, **loaded_model.artefact.card}
    if as_json:
        typer.echo(json.dumps(card))
        return
    # The bounds of each number and the single hand-overs tell a reader nothing.
    summary = {
        k: v for k, v in card.items() if k not in ("seen", "metrics", "judged", "trained_on")
    }
    Console().print_json(json.dumps({**summary, **model_catalog.summarize_card(card)}))


@models.command("promote")
def promote_model(
    model: ModelArgument,
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[E.npz...]",
            help="Episode tables of the newest days, on which no compared version was trained.",
        ),
    ] = None,
    *,
    force: Annotated[
        bool, typer.Option(help="Put the version in use without a comparison.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a version in use: from then on models/NAME means this version.

    The new version must be better on episode tables of days that it was not trained on: better than
    the version in use, which was not trained on them either, or without one better than the twin
    and the rule quantile. Better means that the 95 % interval of the difference in cost lies below
    zero. If the new version is not better, nothing changes, and the exit code is 1.
    """
    from mirage.judging import model_promotion
    from mirage.lab.tables.twin_asking import ask_twin_if_needed
    from mirage.policies import registry

    fill_twin = partial(ask_twin_if_needed, output=TERMINAL)
    review = model_promotion.judge_promotion(
        model, get_models_folder(config), words or [], force=force, fill_twin=fill_twin
    )
    evidence = review.build_evidence()
    if review.refusal is None:
        registry.promote_version(
            review.folder, evidence | {"by": getuser(), "at": int(time.time())}
        )
    if as_json:
        typer.echo(json.dumps(evidence))
    if review.refusal is not None:
        raise MirageError(review.refusal)
    if not as_json:
        comparison = "" if review.comparison is None else f"{review.comparison}: "
        typer.echo(f"{comparison}{review.new} is in use")


@models.command("recalibrate")
def recalibrate_model(
    model: ModelArgument,
    words: Annotated[
        list[Path],
        typer.Argument(
            metavar="E.npz...",
            help="Episode tables of the newest days, on which the model was not trained.",
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option(
            metavar="models/NAME/VERSION",
            help="Write the new version into this folder, which must not exist yet.",
        ),
    ],
    config: ConfigOption = None,
) -> None:
    """Write a copy of a model whose forecast of the wait is corrected by the newest weeks.

    The copy decides as the model does: decisions go by the probability of being late, which the
    command does not change.
    """
    from mirage.lab.training.recalibration import recalibrate_forecast

    with show_activity("adjusting the forecast"):
        count = recalibrate_forecast(model, partial(get_models_folder, config), words, out)
    typer.echo(f"{out}: the forecast is adjusted to {count} hand-overs")


def _format_cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
