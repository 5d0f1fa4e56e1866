"""Writing an artefact: the graph, and the card that says what it is and where it comes from."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mirage.episodes.table import EpisodeTable
from mirage.errors import InputError
from mirage.features import spec
from mirage.learn import train
from mirage.learn.rows import Rows
from mirage.learn.train import Fitted
from mirage.learn.trees import Family
from mirage.policy.artefact import CARD, FORMAT, GRAPH
from mirage.policy.quantiles import LEVELS

_PACKAGES = (
    "mirage-provisioner",
    "numpy",
    "onnx",
    "onnxmltools",
    "scikit-learn",
    "skl2onnx",
    "xgboost-cpu",
)


def card(
    fitted: Fitted, family: Family, rows: Rows, tables: Sequence[EpisodeTable], **told: Any
) -> dict[str, Any]:
    """Everything but the sha256; `told` are the run's own figures."""
    low, high = train.seen(rows)
    return {
        "format": FORMAT,
        "family": family.name,
        "features_fingerprint": spec.FINGERPRINT,
        "boundary": {"factor": fitted.factor, "prices": train.PRICES},
        "forecast": {
            "levels": LEVELS,
            "thresholds_h": family.thresholds_h,
            "shift": fitted.shift.tolist(),
        },
        "settings": family.settings(),
        **told,
        "trained_on": [_table(table) for table in tables],
        "seen": {"low": low, "high": high},
        "versions": _versions(),
    }


def save(folder: Path, card: Mapping[str, Any], graph: bytes) -> None:
    """Write the folder, whole or not at all. Raises InputError: no version is written over."""
    check_new(folder)
    part = folder.parent / f".{folder.name}.part"
    described = {**card, "sha256": hashlib.sha256(graph).hexdigest()}
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        (part / GRAPH).write_bytes(graph)
        (part / CARD).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        os.rename(part, folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error


def check_new(folder: Path) -> None:
    """Raises InputError where the folder is there already: an artefact does not change."""
    if folder.exists():
        raise InputError(f"{folder} is there already: give another version")


def _table(table: EpisodeTable) -> dict[str, Any]:
    about = table.about
    return {
        "trace": about.trace,
        "trace_sha256": about.trace_sha256,
        "nodes": about.nodes,
        "time_limit_s": about.time_limit_s,
        "since": about.since,
        "until": about.until,
        "episodes": len(table),
        "cluster": about.cluster,
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        # xgboost comes as several packages.
        except PackageNotFoundError:
            continue
    return found
