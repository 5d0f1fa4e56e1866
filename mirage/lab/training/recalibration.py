"""Adjusts the forecast of a tree model to newer hand-overs. Its decisions stay the same."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mirage.errors import InputError
from mirage.judging.model_promotion import load_unseen_table
from mirage.lab.training.dataset import Rows, choose_step
from mirage.lab.training.trainers import TREES, make_packages_error
from mirage.policies import registry
from mirage.policies.models.artefact import GRAPH
from mirage.policies.models.conformal import FEWEST, QuantileShifts
from mirage.policies.models.tree_model import TreeModel


def recalibrate_forecast(
    model: str, find_models: Callable[[], Path], paths: Sequence[Path], out: Path
) -> int:
    """Save a copy of a model with an adjusted forecast in the folder `out`.

    `find_models` returns the folder of models. It is called only if the packages for training are
    installed. `paths`: files of episode tables that the model was not trained on. Returns the
    number of hand-overs that the adjustment was computed from. Raises InputError if packages are
    missing, the model has no forecast, or the tables are too few or overlap the training data.
    """
    try:
        from mirage.lab.training.artefact.model_card import save_artefact  # noqa: PLC0415 - an extra
    except ImportError:
        raise make_packages_error(TREES) from None
    models = find_models()
    policy = registry.load_model(model, models)
    card, trees = policy.artefact.card, policy.artefact.model
    if not isinstance(trees, TreeModel):
        raise InputError(
            f"{policy.name} makes no forecast of the wait, so there is nothing to adjust"
        )
    tables = [load_unseen_table(path, policy) for path in paths]
    every = choose_step(len(tables[0].instant_s))
    rows = Rows.from_tables(tables, every, twin=card.get("twin") is not None)
    if len(rows) < FEWEST:
        raise InputError(
            f"{len(rows)} hand-overs are too few to adjust a forecast: {FEWEST} are needed"
        )
    residuals = rows.compute_residuals(trees.predict_log_quantiles(rows.flat))
    shifts = QuantileShifts.from_residuals(residuals, rows.start_point, rows.nodes)
    graph = (registry.resolve_folder(model, models) / GRAPH).read_bytes()
    forecast = card["forecast"] | shifts.to_card()
    # Sizes without hand-overs in these tables keep their shifts.
    forecast["shift_by_nodes"] = (
        trees.shifts.to_card()["shift_by_nodes"] | forecast["shift_by_nodes"]
    )
    save_artefact(out, card | {"forecast": forecast}, graph)
    return len(rows)
