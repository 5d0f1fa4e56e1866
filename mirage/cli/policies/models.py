"""`mirage models`: lists, shows, promotes and recalibrates trained policies."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.connection.suggestions import suggest_models
from mirage.cli.options import ConfigOption, JsonOption, get_models_folder
from mirage.cli.policies.figure_tables import format_figure, render_metrics
from mirage.cli.ui.progress import show_activity
from mirage.cli.ui.study_output import TERMINAL
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.policies.model_catalog import ModelVersion

app = typer.Typer()
models = typer.Typer(no_args_is_help=True)
app.add_typer(models, name="models", help="List, show, promote or recalibrate trained policies.")

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="models/NAME/VERSION", help="The version of a model.", autocompletion=suggest_models
    ),
]

UserOption = Annotated[
    bool, typer.Option("--user", help="The models of your own service (`mirage serve --user`).")
]

AnyVersionArgument = Annotated[
    str,
    typer.Argument(
        metavar="models/NAME[/VERSION]",
        help="A model, or one version of it.",
        autocompletion=suggest_models,
    ),
]

_OLDER = "* judged by an older release, once an hour and without returns: see `mirage evaluate`"


@models.command("list")
def list_models(
    *, user: UserOption = False, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List the models that the service finds, one in a row.

    The row is about the version in use, or else about the newest. Of the models of a cluster the
    one that cost least on later weeks comes first. `mirage models show NAME` lists the versions;
    --json has all versions of all models.
    """
    from mirage.policies import model_catalog

    models_folder = get_models_folder(config, user=user)
    lines = model_catalog.list_versions(models_folder)
    if as_json:
        rows = [asdict(line) for line in lines]
        typer.echo(json.dumps({"models_dir": str(models_folder), "models": rows}))
        return
    summaries = model_catalog.summarize_models(lines, models_folder)
    has_older = any(_is_older(summary.line) for summary in summaries)
    notes = (f"in {models_folder}", "in brackets the 95 % interval over days")
    table = Table(caption="\n".join((*notes, _OLDER) if has_older else notes))
    columns = ("model", "in use", "family", "trained until", "gap closed", "versions", "fault")
    for column in columns:
        table.add_column(column)
    for summary in summaries:
        line = summary.line
        in_use = line.version if line.promoted else f"none ({line.version} is newest)"
        cells = (line.name, in_use, line.family, line.trained_until, _format_gap(line))
        table.add_row(*map(_format_cell, (*cells, summary.versions, line.fault)))
    Console().print(table)


@models.command("show")
def show_model(
    model: AnyVersionArgument,
    *,
    user: UserOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a model's card: what it was trained on, and its results. Checks the model's files.

    For models/NAME the command lists the versions of the model, and shows the card of the version
    in use, or else of the newest.
    """
    from mirage.policies import model_catalog, registry

    models_folder = get_models_folder(config, user=user)
    name = model if registry.is_model(model) else f"{registry.MODELS}/{model}"
    lines: list[ModelVersion] = []
    if not registry.is_version(name):
        every = model_catalog.list_versions(models_folder)
        lines = model_catalog.sort_versions([line for line in every if line.name == name])
    # Of a name without versions the registry says what is missing.
    if lines:
        name = next((line for line in lines if line.promoted), lines[0]).model
    if lines and not as_json:
        _print_versions(lines)
    loaded_model = registry.load_model(name, models_folder)
    card = {"model": loaded_model.name, **loaded_model.artefact.card}
    if as_json:
        # The card's own `versions` are those of Python and its packages.
        versions = {"model_versions": [asdict(line) for line in lines]} if lines else {}
        typer.echo(json.dumps(card | versions))
        return
    # The bounds of each number and the single hand-overs tell a reader nothing.
    summary = {
        k: v for k, v in card.items() if k not in ("seen", "metrics", "judged", "trained_on")
    }
    Console().print_json(json.dumps({**summary, **model_catalog.summarize_card(card)}))
    figures = render_metrics(card.get("metrics", {}))
    if figures is not None:
        Console().print(figures)


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
    user: UserOption = False,
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
        model, get_models_folder(config, user=user), words or [], force=force, fill_twin=fill_twin
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
    user: UserOption = False,
    config: ConfigOption = None,
) -> None:
    """Write a copy of a model whose forecast of the wait is corrected by the newest weeks.

    Releases go by the forecast, so the copy decides otherwise than the model does: `mirage models
    promote` compares the two.
    """
    from mirage.lab.training.recalibration import recalibrate_forecast

    with show_activity("adjusting the forecast"):
        count = recalibrate_forecast(
            model, partial(get_models_folder, config, user=user), words, out
        )
    typer.echo(f"{out}: the forecast is adjusted to {count} hand-overs")


def _print_versions(lines: "Sequence[ModelVersion]") -> None:
    table = Table(caption=_OLDER if any(map(_is_older, lines)) else None)
    columns = ("version", "in use", "family", "trained on", "gap closed", "cost h", "fault")
    for column in columns:
        table.add_column(column)
    for line in lines:
        in_use = "yes" if line.promoted else ""
        cells = (line.version, in_use, line.family, line.trained_on, _format_gap(line))
        table.add_row(*map(_format_cell, (*cells, line.cost_h, line.fault)))
    Console().print(table)


def _is_older(line: "ModelVersion") -> bool:
    return line.gap_closed is not None and not line.as_evaluate


def _format_gap(line: "ModelVersion") -> str:
    gap = format_figure(line.gap_closed, line.gap_closed_ci)
    return f"{gap}*" if _is_older(line) else gap


def _format_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
