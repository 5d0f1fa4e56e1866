"""`mirage models`: trained policies, which there are, where they come from, which is in use."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.configured import ConfigOption, models_folder
from mirage.cli.promoting import compared, unseen
from mirage.cli.training import EVERY, no_packages
from mirage.errors import InputError, MirageError, UnfitModel
from mirage.features import spec
from mirage.learn.rows import Rows
from mirage.policy import registry
from mirage.policy.artefact import CARD, GRAPH, read_card
from mirage.policy.conformal import FEWEST, Shifts
from mirage.policy.late import LateModel

app = typer.Typer()
models = typer.Typer(no_args_is_help=True)
app.add_typer(models, name="models", help="Trained policies: list, show, promote, recalibrate.")

Model = Annotated[str, typer.Argument(metavar="models/NAME/VERSION")]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@models.command("list")
def list_models(*, config: ConfigOption = None, as_json: AsJson = False) -> None:
    """All versions, and which of each name is promoted: those that the service finds."""
    under = models_folder(config)
    told = [_line(folder) for folder in registry.models(under)]
    if as_json:
        typer.echo(json.dumps({"models_dir": str(under), "models": told}))
        return
    table = Table(caption=f"in {under}")
    for column in ("model", "family", "promoted", "trained on", "gap closed", "fault"):
        table.add_column(column)
    for line in told:
        table.add_row(*(_cell(value) for value in line.values()))
    Console().print(table)


@models.command()
def show(model: Model, *, config: ConfigOption = None, as_json: AsJson = False) -> None:
    """What a model is: its card, checked against its graph."""
    served = registry.model(model, models_folder(config))
    card = {"model": served.name, **served.artefact.card}
    if as_json:
        typer.echo(json.dumps(card))
        return
    # The bounds of each number, and each hand-over, say nothing to a reader.
    told = {k: v for k, v in card.items() if k not in ("seen", "metrics", "judged", "trained_on")}
    Console().print_json(json.dumps({**told, **_summary(card)}))


@models.command()
def promote(
    model: Model,
    words: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[E.npz...]", help="The newest days, which neither has seen."),
    ] = None,
    *,
    force: Annotated[bool, typer.Option(help="Whatever the one in use would do.")] = False,
    config: ConfigOption = None,
    as_json: AsJson = False,
) -> None:
    """Put a version in use: from then on models/NAME means it.

    Where another version is in use, the new one must beat it on episode tables of days that
    neither was trained on: the 95 % interval of the difference in cost has to lie below zero. Else
    nothing changes, and the exit code is 1.
    """
    under = models_folder(config)
    new = registry.model(model, under)
    folder = registry.folder_of(model, under)
    old = registry.promoted(folder.parent)
    found = None
    if old not in (None, folder.name) and not force:
        before = registry.model(f"{registry.MODELS}/{folder.parent.name}/{old}", under)
        found = compared(new, before, words or [])
    refused = None if found is None else found.refusal()
    if refused is None:
        registry.promote(folder)
    if as_json:
        told = {"model": new.name, "before": old, "promoted": refused is None}
        typer.echo(json.dumps(told if found is None else told | found.figures()))
    if refused is not None:
        raise MirageError(refused)
    if not as_json:
        typer.echo(f"{new.name} is in use" if found is None else f"{found}: {new.name} is in use")


@models.command()
def recalibrate(
    model: Model,
    words: Annotated[
        list[Path],
        typer.Argument(metavar="E.npz...", help="The newest days, which it has not seen."),
    ],
    *,
    out: Annotated[
        Path, typer.Option(metavar="models/NAME/VERSION", help="A folder that is not there yet.")
    ],
    config: ConfigOption = None,
) -> None:
    """The same model, the forecast of the wait adjusted to what the newest weeks would have needed.

    Decisions stay as they are: they go by the odds of being late.
    """
    try:
        from mirage.learn.card import save  # noqa: PLC0415 - an extra
    except ImportError:
        raise no_packages() from None
    under = models_folder(config)
    served = registry.model(model, under)
    card, trees = served.artefact.card, served.artefact.model
    if not isinstance(trees, LateModel):
        raise InputError(f"{served.name} has no forecast of the wait")
    tables = [unseen(path, (served,)) for path in words]
    rows = Rows.of(tables, EVERY, twin=card.get("twin") is not None)
    if len(rows) < FEWEST:
        raise InputError(f"{len(rows)} hand-overs are too few to adjust a forecast by")
    residuals = rows.residuals(trees.log_quantiles(rows.flat))
    found = Shifts.found(residuals, rows.start_point, rows.nodes)
    graph = (registry.folder_of(model, under) / GRAPH).read_bytes()
    forecast = card["forecast"] | found.card()
    # Sizes that these tables have none of keep what they had.
    forecast["shift_by_nodes"] = trees.shifts.card()["shift_by_nodes"] | forecast["shift_by_nodes"]
    save(out, card | {"forecast": forecast}, graph)
    typer.echo(f"{out}: adjusted by {len(rows)} hand-overs")


def _tables(card: dict[str, Any]) -> list[dict[str, Any]]:
    learned = card.get("trained_on", [])
    return learned if isinstance(learned, list) else []


def _line(folder: Path) -> dict[str, Any]:
    """A row of the list; a card that does not read is told, not skipped."""
    told: dict[str, Any] = {"model": registry.shown(folder), "family": None}
    told["promoted"] = registry.promoted(folder.parent) == folder.name
    try:
        card = read_card(folder)
        summary = _summary(card)
    except UnfitModel as error:
        return {**told, "trained_on": None, "gap_closed": None, "fault": str(error)}
    # A card may hold anything.
    except (AttributeError, KeyError, OSError, TypeError, ValueError):
        why = f"{CARD} does not tell what it was trained on, or how it was judged"
        return {**told, "trained_on": None, "gap_closed": None, "fault": why}
    fault = None if card["features_fingerprint"] == spec.FINGERPRINT else "other features"
    return {**told, "family": card["family"], **summary, "fault": fault}


def _summary(card: dict[str, Any]) -> dict[str, Any]:
    """Where it comes from, and how much of the gap it closed on later weeks."""
    spans = (
        f"{t['trace']} {t['nodes']} node(s) {_day(t['since'])} to {_day(t['until'])}"
        for t in _tables(card)
    )
    judged = card.get("metrics", {}).get("policies", {}).get(card["family"], {}).get("all", {})
    return {"trained_on": "; ".join(spans), "gap_closed": judged.get("gap_closed")}


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value is None else str(value)
