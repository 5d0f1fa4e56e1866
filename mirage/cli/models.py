"""`mirage models`: trained policies, which there are, where they come from, which is in use."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.ask_twin import ask_where_needed
from mirage.cli.configured import ConfigOption, models_folder
from mirage.cli.training import EVERY, no_packages
from mirage.domain.handover import OVERLAP_PRICE
from mirage.episodes import deciding
from mirage.episodes.evaluate import Handovers
from mirage.episodes.table import EpisodeTable
from mirage.errors import InputError, MirageError, UnfitModel
from mirage.features import spec
from mirage.learn.rows import Rows
from mirage.policy import registry
from mirage.policy.artefact import CARD, GRAPH, read_card
from mirage.policy.conformal import FEWEST, Shifts
from mirage.policy.late import LateModel
from mirage.policy.served import Served

app = typer.Typer()
models = typer.Typer(no_args_is_help=True)
app.add_typer(models, name="models", help="Trained policies: list, show, promote, recalibrate.")

Model = Annotated[str, typer.Argument(metavar="models/NAME/VERSION")]
_LATER = 2**62
"""A table that begins before what was learned from is as little unseen as one within it."""

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

    Where another version is in use, the new one must cost less on episode tables of days that
    neither was trained on; else nothing changes, and the exit code is 1.
    """
    under = models_folder(config)
    new = registry.model(model, under)
    folder = registry.folder_of(model, under)
    old = registry.promoted(folder.parent)
    told: dict[str, Any] = {"model": new.name, "before": old}
    if old not in (None, folder.name) and not force:
        before = registry.model(f"{registry.MODELS}/{folder.parent.name}/{old}", under)
        told |= _better(new, before, words or [])
    registry.promote(folder)
    typer.echo(json.dumps(told) if as_json else f"{new.name} is in use")


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
    tables = [_unseen(path, (served,)) for path in words]
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


def _better(new: Served, old: Served, paths: Sequence[Path]) -> dict[str, float]:
    """Mean costs of both; raises where the new one's is not the lower."""
    ours, theirs = new.artefact.card, old.artefact.card
    if ours["sha256"] == theirs["sha256"] and ours.get("forecast") != theirs.get("forecast"):
        # Recalibrated: every decision is the same.
        return {}
    if not paths:
        raise InputError(
            f"{old.name} is in use: give episode tables of newer days to compare on, or --force"
        )
    tables = [_unseen(path, (new, old)) for path in paths]
    ask_where_needed((new, old), paths, tables)
    new_h, old_h = (_cost_h(served, tables) for served in (new, old))
    if new_h >= old_h:
        raise MirageError(
            f"{new.name} costs {new_h:.3f} h a hand-over and {old.name} {old_h:.3f} h: "
            f"{old.name} stays in use"
        )
    return {"cost_h": new_h, "cost_before_h": old_h}


def _unseen(path: Path, judged: Sequence[Served]) -> EpisodeTable:
    table = EpisodeTable.load(path)
    if not len(table) or table.about.features_fingerprint != spec.FINGERPRINT:
        raise InputError(f"{path} holds no episode with this program's features")
    about = table.about
    for served in judged:
        if served.artefact.scope.has_seen(str(about.cluster.get("name", "")), about.since, _LATER):
            raise InputError(f"{path} has days that {served.name} was trained on")
    return table


def _tables(card: dict[str, Any]) -> list[dict[str, Any]]:
    learned = card.get("trained_on", [])
    return learned if isinstance(learned, list) else []


def _cost_h(served: Served, tables: Sequence[EpisodeTable]) -> float:
    """Mean cost a hand-over at the usual price."""
    parts = [Handovers.of(t, deciding.decided(t, served, OVERLAP_PRICE)) for t in tables]
    return float(np.mean(Handovers.together(parts).cost_h(OVERLAP_PRICE)))


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
