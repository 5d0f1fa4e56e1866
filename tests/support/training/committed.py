"""A small model that is committed: for tests that need some artefact, and need not have trained it.

`python -m tests.support.training.committed` trains it again, as after a change of the features.
"""

import gzip
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from mirage.observation import spec
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, GRAPH
from mirage.policies.models.quantiles import LEVELS
from tests.support.paths import DATA

_FOLDER = DATA / "learn"
_GRAPH = _FOLDER / f"{GRAPH}.gz"

AT_ONCE = {"levels": LEVELS, "thresholds_h": (), "shift": [9.0] * len(LEVELS)}
"""A forecast of a year, which frees at the first instant. On calm days that costs an overlap of
4 h, on busy ones it is what a trained model does as well."""


def save(folder: Path, **card_fields: Any) -> Path:
    """Save the committed artefact. `card_fields` replace fields of its card."""
    card = json.loads((_FOLDER / CARD).read_text())
    assert card["features_fingerprint"] == spec.FINGERPRINT, f"other features now:{__doc__}"
    graph = gzip.decompress(_GRAPH.read_bytes())
    assert card["sha256"] == hashlib.sha256(graph).hexdigest()
    folder.mkdir(parents=True)
    (folder / GRAPH).write_bytes(graph)
    (folder / CARD).write_text(json.dumps(card | card_fields, indent=1, allow_nan=False) + "\n")
    return folder


def save_two_versions(models: Path) -> None:
    """Save version 1, which frees at once and is in use, and version 2, which is trained."""
    registry.promote_version(save(models / "made" / "1", forecast=AT_ONCE))
    save(models / "made" / "2")


def _train() -> None:
    from tests.support.training import trained  # noqa: PLC0415 - what only training needs

    with tempfile.TemporaryDirectory() as scratch:
        folder = trained.save(Path(scratch) / "1")
        _FOLDER.mkdir(exist_ok=True)
        (_FOLDER / CARD).write_text((folder / CARD).read_text())
        _GRAPH.write_bytes(gzip.compress((folder / GRAPH).read_bytes(), mtime=0))


if __name__ == "__main__":
    _train()
