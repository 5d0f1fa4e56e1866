"""Promoting a model on an admin's word: judged, put in use, written to the audit.

The page Admin and the API both come here. Judging takes seconds and no transaction is open then.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.episodes.table.episode_table import EpisodeTable
from mirage.errors import IllegalTransition, InputError, NotFound, TooMany
from mirage.http.context import ApiContext
from mirage.policy import registry
from mirage.ports import Policy
from mirage.services.models import model_catalog, model_promotion
from mirage.services.models.model_catalog import ModelDetail
from mirage.services.models.model_promotion import PromotionReview
from mirage.store.events import audit
from mirage.store.events.audit import AuditEntry

PROMOTED, REFUSED = "model promoted", "promotion refused"

_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.npz")
_judging = threading.Lock()
"""Of a process: it takes a core and the memory of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    model: str
    """models/NAME/VERSION."""
    tables: tuple[str, ...] = ()
    """Names of files of `tables_dir`."""
    force: bool = False


def format_model_name(name: str, version: str) -> str:
    return f"{registry.MODELS}/{name}/{version}"


def get_model(given: ApiContext, name: str, version: str) -> ModelDetail:
    """Raises NotFound where there is none."""
    try:
        return model_catalog.load_version(
            format_model_name(name, version), _get_models_folder(given)
        )
    except InputError as error:
        raise NotFound(f"there is no model {format_model_name(name, version)}") from error


def list_tables(given: ApiContext) -> list[str]:
    """Names of the episode tables that there are."""
    folder = given.tables_dir
    if folder is None or not folder.is_dir():
        return []
    names = (path.name for path in folder.glob("*.npz"))
    return sorted(n for n in names if _TABLE.fullmatch(n) and not n.endswith(".twin.npz"))


def promote_model(
    given: ApiContext, asked: PromotionRequest, *, actor: str, via: str
) -> PromotionReview:
    """Raises IllegalTransition, with the figures, where it may not take the other's place; NotFound
    for no model or table; InputError for tables of no use; TooMany while another one is judged."""
    under = _get_models_folder(given)
    try:
        registry.resolve_folder(asked.model, under)
    except InputError as error:
        raise NotFound(f"there is no {asked.model}") from error
    paths = [_get_table_path(given, name) for name in asked.tables]
    if not _judging.acquire(blocking=False):
        raise TooMany("another model is being judged: ask again in a minute")
    try:
        found = model_promotion.judge_promotion(
            asked.model, under, paths, force=asked.force, ask=_check_twin_answers
        )
    finally:
        _judging.release()
    now = given.clock()
    evidence = found.build_evidence() | {"forced": asked.force, "tables": list(asked.tables)}
    if found.refusal is None:
        registry.promote_version(found.folder, evidence | {"by": actor, "at": now})
    event = PROMOTED if found.refusal is None else REFUSED
    with given.store.begin() as tx:
        audit.set_audit_credential(tx, via)
        entry = AuditEntry(at=now, actor=actor, event=event, detail=evidence)
        audit.write_entry(tx, given.cluster_id, entry)
    if found.refusal is not None:
        raise IllegalTransition(found.refusal)
    return found


def _get_models_folder(given: ApiContext) -> Path:
    if given.models_dir is None:
        raise NotFound("this service has no folder of models (provision.models_dir)")
    return given.models_dir


def _get_table_path(given: ApiContext, name: str) -> Path:
    if name not in list_tables(given):
        raise NotFound(f"there is no table {name} in {given.tables_dir} (provision.tables_dir)")
    assert given.tables_dir is not None  # noqa: S101 - it holds the table
    return given.tables_dir / name


def _check_twin_answers(
    policies: Sequence[Policy], paths: Sequence[Path], tables: Sequence[EpisodeTable]
) -> None:
    """The twin is not asked here: for months of hand-overs that takes minutes of every core."""
    if not any(policy.needs.twin for policy in policies):
        return
    for path, table in zip(paths, tables, strict=True):
        if table.twins is None:
            raise InputError(
                f"{path.name} lacks the twin's answers: make it with `mirage episodes --twin`, "
                "or promote with `mirage models promote`, which asks it"
            )
