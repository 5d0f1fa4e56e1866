"""Writes into a model's card how the model came into use and out of it.

`previous`, `promoted_at`, `demoted_at` and `why` change nothing about the model, so its graph still
matches the card. A card that has changed makes the service load the model again.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirage.errors import InputError
from mirage.policies.models.artefact import CARD, read_card

PREVIOUS = "previous"
"""The version in use before; null: none was."""
PROMOTED_AT, DEMOTED_AT = "promoted_at", "demoted_at"
WHY = "why"
"""A sentence: the reason of the last promotion or demotion."""


def note_in_card(folder: Path, notes: Mapping[str, Any]) -> None:
    """Write notes into the card of a model's folder, as one step: no reader sees half a card.

    Raises UnfitModel for a card that cannot be read, InputError for one that cannot be written.
    """
    card = read_card(folder)
    if all(card.get(name, _MISSING) == value for name, value in notes.items()):
        return
    part = folder / f".{CARD}.part"
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(card | dict(notes), file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, folder / CARD)
    except OSError as error:
        raise InputError(f"{folder / CARD} cannot be written: {error.strerror}") from error


_MISSING = object()
