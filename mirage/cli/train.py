"""`mirage train`: from episode tables to an artefact that decides."""

import json
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.progress import counted
from mirage.episodes.table import EpisodeTable
from mirage.errors import InputError
from mirage.policy import registry

if TYPE_CHECKING:
    from mirage.learn.trees import Family

app = typer.Typer()

EVERY = 6
"""Of ten-minute instants, one is learned from: neighbours are nearly the same row."""
LARGEST_BYTES = 5_000_000


class FamilyName(StrEnum):
    FOREST = "forest"
    XGBOOST = "xgboost"


@app.command()
def train(
    family: Annotated[FamilyName, typer.Argument(help="The kind of model.")],
    words: Annotated[list[Path], typer.Argument(metavar="E.npz...", help="Episode tables.")],
    *,
    out: Annotated[
        Path, typer.Option(metavar="models/NAME/VERSION", help="A folder that is not there yet.")
    ],
    windows: Annotated[
        int, typer.Option("--folds", min=1, help="Windows of later weeks to be judged on.")
    ] = 3,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same model.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Train a policy on episode tables.

    It is judged on rolling windows first: fitted on what was known before each, and asked to decide
    in it. Then it is fitted on everything, converted to ONNX, and compared with what was converted.
    docs/train.md says how it decides and what the figures mean. Validation weeks do not belong
    among the tables.
    """
    _check_out(out)
    kind = _family(family, seed)
    tables = [EpisodeTable.load(path) for path in words]
    begun = time.perf_counter()
    graph, card = _trained(kind, tables, windows, seed)
    card["wall_s"] = round(time.perf_counter() - begun, 1)
    _save(out, card, graph)
    report = {
        "out": str(out),
        "family": str(family),
        "bytes": len(graph),
        **{k: card[k] for k in ("wall_s", "seed", "boundary", "parity", "metrics")},
    }
    if as_json:
        typer.echo(json.dumps(report))
    else:
        Console().print(_shown(report))


def _trained(
    family: "Family", tables: Sequence[EpisodeTable], windows: int, seed: int
) -> tuple[bytes, dict[str, Any]]:
    from mirage.learn import card, export, train  # noqa: PLC0415 - an extra
    from mirage.learn.rows import Rows  # noqa: PLC0415

    rows = Rows.of(tables, EVERY)
    with counted(family.name, (windows + 1) * train.STEPS) as told:
        metrics = train.judge(rows, family, windows, seed, told)
        fitted = train.fit(rows, family, told)
    graph = export.graph(fitted.late, fitted.wait, rows.flat.shape[1])
    parity = export.parity(graph, fitted.late, fitted.wait, rows.flat)
    own = {"seed": seed, "every": EVERY, "parity": parity, "metrics": metrics}
    return graph, card.card(fitted, family, rows, tables, **own)


def _save(out: Path, card: dict[str, Any], graph: bytes) -> None:
    from mirage.learn.card import save  # noqa: PLC0415 - an extra

    if len(graph) > LARGEST_BYTES:
        raise InputError(f"the model has {len(graph)} bytes, more than {LARGEST_BYTES}")
    save(out, card, graph)


def _family(name: str, seed: int) -> "Family":
    try:
        import onnxmltools  # noqa: F401, PLC0415 - an extra
        import skl2onnx  # noqa: F401, PLC0415 - an extra

        from mirage.learn.trees import FAMILIES  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(
            "training needs more packages: pip install 'mirage-provisioner[train]'"
        ) from None
    return FAMILIES[name](seed=seed)


def _check_out(out: Path) -> None:
    """Said before the long work, not after it."""
    if not registry.is_version("/".join(out.parts[-3:])):
        raise InputError(f"--out {out}: a model's folder is models/NAME/VERSION")
    if out.exists():
        raise InputError(f"{out} is there already: give another version")


def _shown(report: dict[str, Any]) -> Table:
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
