"""Finds policies by name: the rules by their names, trained models by their folders,
models/NAME/VERSION.

models/NAME alone is the promoted version of that name.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from mirage.domain.ports import Policy
from mirage.errors import InputError, NotFound, UnfitModel
from mirage.policies.auto_policy import AutoPolicy, Candidate
from mirage.policies.models.artefact import CARD, Artefact, read_card
from mirage.policies.models.card_notes import (
    DEMOTED_AT,
    PREVIOUS,
    PROMOTED_AT,
    WHY,
    note_in_card,
)
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.results.card_results import CardResultsLookup
from mirage.policies.rules.lead_rules import (
    AtOnce,
    Average,
    FixedLead,
    Quantile,
    Reactive,
    SlurmEstimate,
)
from mirage.policies.rules.pinning import Pin, PinThenFree
from mirage.policies.twin_policy import TwinPolicy

_RULES: tuple[Policy, ...] = (
    Reactive(),
    Average(),
    Quantile(),
    SlurmEstimate(),
    FixedLead(),
    AtOnce(),
    TwinPolicy(),
    Pin(),
    PinThenFree(),
)
POLICIES: dict[str, Policy] = {policy.name: policy for policy in _RULES}

MOVES_OFTEN = frozenset({"pin", "pin-then-free"})
"""Policies that use other positions than held and free. Episode tables know only the move from
held to free."""

AUTO = "auto"
FORECASTS = ("twin",)
RULES = ("quantile", "slurm-estimate", "fixed-lead", "reactive")
"""The rules among `auto`'s candidates, after the models. Rules after quantile decide only if their
past results are better."""
NAMES = (*POLICIES, AUTO)
"""The names of all policies except models."""

MODELS = "models"
SITE = "site-"
"""What the names of models begin with that a site learned from its own history."""
PROMOTED = "promoted"
"""A file beside the versions of a name. It holds the name of the promoted version."""
PROMOTIONS = "promotions.jsonl"
"""A file beside it with a JSON object per line: each promotion and its reason."""

_WORD = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}"
"""A name or a version. Each is a folder, and no file system takes a longer name."""
_MODEL_NAME = re.compile(rf"{MODELS}/(?P<name>{_WORD})(/(?P<version>{_WORD}))?/?")


def get_policy(name: str, under: Path = Path(MODELS)) -> Policy:
    """Return the rule of that name, `auto`, or the model of that name in the folder `under`.

    Raises NotFound if there is no such rule, InputError if there is no such model, UnfitModel if
    the model cannot be used.
    """
    if is_model(name):
        return load_model(name, under)
    if name == AUTO:
        return build_auto(under)
    try:
        return POLICIES[name]
    except KeyError:
        raise NotFound(
            f"no policy {name!r}: use {', '.join(NAMES)} or models/NAME/VERSION"
        ) from None


def build_auto(under: Path = Path(MODELS)) -> AutoPolicy:
    """Build `auto` with the promoted models and the rules as candidates. The results are those
    of the models' cards."""
    return _build_auto(tuple(_iter_promoted_models(under)))


@lru_cache(maxsize=4)
def _build_auto(promoted: tuple[ModelPolicy | UnavailableModel, ...]) -> AutoPolicy:
    models = [m for m in promoted if isinstance(m, ModelPolicy)]
    return AutoPolicy(
        candidates=(
            *(Candidate(m, scope=m.artefact.scope) for m in models),
            *(Candidate(m) for m in promoted if isinstance(m, UnavailableModel)),
            *(Candidate(POLICIES[name]) for name in FORECASTS),
            *(Candidate(POLICIES[name], proven=name == RULES[0]) for name in RULES),
        ),
        results=CardResultsLookup({m.name: m.artefact.judged for m in models}),
    )


def _iter_promoted_models(under: Path) -> Iterator[ModelPolicy | UnavailableModel]:
    """Yield the promoted model of each name, or a stand-in that says why it cannot be asked.

    The site's own come first: they had to beat what `auto` chose without them.
    """
    folders = (path.parent for path in under.glob(f"*/{PROMOTED}"))
    for folder in sorted(folders, key=lambda path: (not path.name.startswith(SITE), path.name)):
        name = f"{MODELS}/{folder.name}"
        try:
            yield load_model(name, under)
        except (InputError, UnfitModel) as error:
            yield UnavailableModel(name, str(error))


def is_model(name: str) -> bool:
    return name.startswith(f"{MODELS}/")


def is_known(name: str) -> bool:
    """Return whether a policy may have the name: a rule has it, or it is a possible model name."""
    return name in NAMES or _MODEL_NAME.fullmatch(name) is not None


def is_version(name: str) -> bool:
    """Return whether the name is of the form models/NAME/VERSION."""
    match = _MODEL_NAME.fullmatch(name)
    return match is not None and match["version"] is not None


def load_model(name: str, under: Path = Path(MODELS)) -> ModelPolicy:
    """Load a trained model. It is loaded again only if its card has changed."""
    folder = resolve_folder(name, under)
    try:
        changed = (folder / CARD).stat().st_mtime_ns
    except OSError as error:
        raise UnfitModel(f"{folder / CARD} cannot be read: {error.strerror}") from error
    return _load_unchanged(folder.absolute(), changed)


@lru_cache(maxsize=16)
def _load_unchanged(folder: Path, changed: int) -> ModelPolicy:  # noqa: ARG001 - part of the key
    return ModelPolicy(artefact=Artefact.load(folder), name=format_model_name(folder))


def format_model_name(folder: Path) -> str:
    """Return the name models/NAME/VERSION of a folder, wherever the folder is."""
    return f"{MODELS}/{folder.parent.name}/{folder.name}"


def resolve_folder(name: str, under: Path = Path(MODELS)) -> Path:
    """Return the folder of models/NAME/VERSION, or for models/NAME the folder of the promoted
    version.

    Raises InputError if there is none, and for any other name. The name may come from a user, so it
    cannot lead out of `under`.
    """
    match = _MODEL_NAME.fullmatch(name)
    if match is None:
        raise InputError(f"{name!r} is not the name of a model: give models/NAME/VERSION")
    version = match["version"] or find_promoted_version(under / match["name"])
    if version is None and not under.is_dir():
        raise InputError(f"no model {name}: there is no folder {under} (provision.models_dir)")
    if version is None:
        raise InputError(
            f"no version of {name} was promoted: promote one with `mirage models promote`, "
            "or give models/NAME/VERSION"
        )
    folder = under / match["name"] / version
    if not (folder / CARD).is_file():
        raise InputError(f"no model {name}: there is no {folder / CARD}")
    return folder


def find_promoted_version(folder: Path) -> str | None:
    """Return the promoted version in the folder of models/NAME; None if none was promoted."""
    try:
        version = (folder / PROMOTED).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return version if re.fullmatch(_WORD, version) else None


def promote_version(folder: Path, record: Mapping[str, Any] | None = None) -> None:
    """Make the folder's version the one that models/NAME means from now on.

    `record`: why, by whom and when it was promoted; it is kept beside the versions, and the cards
    of both versions say so too. Doing it again changes nothing more. Raises InputError if the files
    cannot be written, UnfitModel if the version's card cannot be read.
    """
    record = {"model": format_model_name(folder)} | dict(record or {})
    before = find_promoted_version(folder.parent)
    notes: dict[str, Any] = {
        PROMOTED_AT: record.get("at"),
        DEMOTED_AT: None,
        WHY: record.get(WHY, ""),
    }
    if before != folder.name:
        notes[PREVIOUS] = before
        _note_demotion(folder.parent, before, record, f"{format_model_name(folder)} replaced it")
    note_in_card(folder, notes)
    _set_promoted_version(folder.parent, folder.name, record)


def take_back_version(folder: Path, record: Mapping[str, Any]) -> str | None:
    """Take the folder's version out of use, and return the version that comes back.

    That is the version before it, if its files are there; None: models/NAME means nothing any more.
    `record` and errors as in `promote_version`. Doing it again changes nothing more.
    """
    version = read_previous_version(folder)
    _note_demotion(folder.parent, folder.name, record, str(record.get(WHY, "")))
    if version is not None:
        came_back = f"it came back, since {format_model_name(folder)} was taken back"
        note_in_card(
            folder.parent / version,
            {PROMOTED_AT: record.get("at"), DEMOTED_AT: None, WHY: came_back},
        )
    if find_promoted_version(folder.parent) == folder.name:
        _set_promoted_version(folder.parent, version, record)
    return version


def read_previous_version(folder: Path) -> str | None:
    """Return the version that was in use before the folder's, by its card; None if there was none,
    or if its files are gone."""
    try:
        version = read_card(folder).get(PREVIOUS)
    except UnfitModel:
        return None
    if not isinstance(version, str) or re.fullmatch(_WORD, version) is None:
        return None
    return version if (folder.parent / version / CARD).is_file() else None


def _note_demotion(names: Path, version: str | None, record: Mapping[str, Any], why: str) -> None:
    """Note in a version's card that it is out of use. A card that is gone or damaged hinders no
    promotion."""
    if version is None:
        return
    with suppress(UnfitModel):
        note_in_card(names / version, {DEMOTED_AT: record.get("at"), WHY: why})


def _set_promoted_version(names: Path, version: str | None, record: Mapping[str, Any]) -> None:
    """Set which version is promoted in the folder of models/NAME; None: none is."""
    part = names / f".{PROMOTED}.part"
    try:
        if list_promotions(names)[:1] != [json.loads(json.dumps(record))]:
            with (names / PROMOTIONS).open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(record)}\n")
        if version is None:
            (names / PROMOTED).unlink(missing_ok=True)
            return
        part.write_text(f"{version}\n", encoding="utf-8")
        os.replace(part, names / PROMOTED)
    except OSError as error:
        raise InputError(f"{names} cannot be written: {error.strerror}") from error


def list_promotions(folder: Path) -> list[dict[str, Any]]:
    """Return the promotion records in the folder of models/NAME, newest first.

    A line that cannot be read is left out.
    """
    try:
        text = (folder / PROMOTIONS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [record for line in reversed(text.splitlines()) if (record := _parse_record(line))]


def _parse_record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def list_model_folders(under: Path = Path(MODELS)) -> list[Path]:
    """Return the folders of all versions of all names, sorted."""
    return sorted(card.parent for card in under.glob(f"*/*/{CARD}"))
