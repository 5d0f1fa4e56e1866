"""Writes an artefact: the graph, and the card that describes the graph and its origin."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.dataset import Rows
from mirage.lab.training.trees import tree_export, tree_training
from mirage.lab.training.trees.tree_families import Family
from mirage.lab.training.trees.tree_training import TreePolicy
from mirage.observation import spec
from mirage.policies.models.artefact import CARD, FORMAT, GRAPH, Artefact
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.models.quantiles import LEVELS

WEIGHTS = "weights.safetensors"

_PACKAGES = (
    "mirage-provisioner",
    "gymnasium",
    "numpy",
    "onnx",
    "onnxmltools",
    "scikit-learn",
    "skl2onnx",
    "stable-baselines3",
    "torch",
    "xgboost-cpu",
)


def build_tree_card(
    fitted: TreePolicy, family: Family, rows: Rows, tables: Sequence[EpisodeTable], **figures: Any
) -> dict[str, Any]:
    """Build the card of trees, except the sha256. `figures`: figures of the training run."""
    return {
        **build_card_header(family.name),
        "forecast": {
            "levels": LEVELS,
            "thresholds_h": family.thresholds_h,
            **fitted.shifts.to_card(),
        },
        "settings": family.list_settings(),
        **figures,
        **describe_training_data(rows, tables),
    }


def serve_trees(
    fitted: TreePolicy, family: Family, rows: Rows, tables: Sequence[EpisodeTable]
) -> ModelPolicy:
    """Build the policy that a service makes of the trees, named after their family.

    `rows` are those that they were fitted to, `tables` those that the rows are of.
    """
    graph = tree_export.export_trees(fitted.wait, rows.flat.shape[1])
    return serve_model(family.name, build_tree_card(fitted, family, rows, tables), graph)


def serve_model(name: str, card: Mapping[str, Any], graph: bytes) -> ModelPolicy:
    """Build the policy that a service makes of a card and a graph."""
    # As a card is read from its file.
    return ModelPolicy(Artefact(json.loads(json.dumps(card)), graph), name)


def build_card_header(family: str) -> dict[str, Any]:
    """Build the fields that every card begins with."""
    return {"format": FORMAT, "family": family, "features_fingerprint": spec.FINGERPRINT}


def describe_training_data(rows: Rows, tables: Sequence[EpisodeTable]) -> dict[str, Any]:
    """Build the fields that every card ends with.

    `seen` are the least and the greatest of each number.
    """
    low, high = tree_training.measure_ranges(rows)
    return {
        "twin": rows.twin,
        "trained_on": [_describe_table(table) for table in tables],
        "seen": {"low": low, "high": high},
        "versions": list_versions(),
    }


def save_artefact(
    folder: Path, card: Mapping[str, Any], graph: bytes, weights: bytes | None = None
) -> None:
    """Write the folder, whole or not at all. Training can continue from `weights`.

    Raises InputError if the folder exists, since no version is overwritten, or cannot be written.
    """
    check_new(folder)
    part = folder.parent / f".{folder.name}.part"
    final_card = {**card, "sha256": hashlib.sha256(graph).hexdigest()}
    if weights is not None:
        final_card["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        (part / GRAPH).write_bytes(graph)
        if weights is not None:
            (part / WEIGHTS).write_bytes(weights)
        text = json.dumps(final_card, indent=1, allow_nan=False) + "\n"
        (part / CARD).write_text(text, encoding="utf-8")
        os.rename(part, folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def check_new(folder: Path) -> None:
    """Raise InputError if the folder already exists: an artefact does not change."""
    if folder.exists():
        raise InputError(f"{folder} already exists: give another version")


def _describe_table(table: EpisodeTable) -> dict[str, Any]:
    metadata = table.metadata
    return {
        "trace": metadata.trace,
        "trace_sha256": metadata.trace_sha256,
        "nodes": metadata.nodes,
        "time_limit_s": metadata.time_limit_s,
        "since": metadata.since,
        "until": metadata.until,
        "load": metadata.load,
        "episodes": len(table),
        "cluster": metadata.cluster,
    }


def list_versions() -> dict[str, str]:
    """List the versions of Python and of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        # xgboost comes as several packages.
        except PackageNotFoundError:
            continue
    return versions
