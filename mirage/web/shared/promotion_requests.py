"""Promotes a model for an admin: compares it, puts it in use, and writes the audit.

The page Admin and the API both use this module. The comparison takes seconds to minutes; no
transaction is open meanwhile.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.domain.ports import Policy
from mirage.errors import IllegalTransition, InputError, NotFound, TooMany
from mirage.judging import model_promotion
from mirage.judging.model_promotion import PromotionReview
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies import model_catalog, registry
from mirage.policies.model_catalog import ModelDetail
from mirage.web.shared.context import ApiContext

PROMOTED, REFUSED = "model promoted", "promotion refused"

_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.npz")
_comparison_lock = threading.Lock()
"""One comparison at a time in a process: it takes a core and the memory of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    model: str
    """models/NAME/VERSION."""
    tables: tuple[str, ...] = ()
    """The names of files in `tables_dir`."""
    force: bool = False


def format_model_name(name: str, version: str) -> str:
    return f"{registry.MODELS}/{name}/{version}"


def get_model(context: ApiContext, name: str, version: str) -> ModelDetail:
    """Return the model's card and promotions. Raises NotFound if there is no such model."""
    try:
        return model_catalog.load_version(
            format_model_name(name, version), _get_models_folder(context)
        )
    except InputError as error:
        raise NotFound(f"there is no model {format_model_name(name, version)}") from error


def list_tables(context: ApiContext) -> list[str]:
    """Return the names of the episode tables in `tables_dir`, sorted."""
    folder = context.tables_dir
    if folder is None or not folder.is_dir():
        return []
    names = (path.name for path in folder.glob("*.npz"))
    return sorted(n for n in names if _TABLE.fullmatch(n) and not n.endswith(".twin.npz"))


def promote_model(
    context: ApiContext, request: PromotionRequest, *, actor: str, via: str
) -> PromotionReview:
    """Compare a model with the one in use, and promote it if it is better.

    Raises IllegalTransition, with the figures, if the model is not better; NotFound for an unknown
    model or table; InputError for tables that cannot be used; TooMany during another comparison.
    """
    models_folder = _get_models_folder(context)
    try:
        registry.resolve_folder(request.model, models_folder)
    except InputError as error:
        raise NotFound(f"there is no {request.model}") from error
    paths = [_get_table_path(context, name) for name in request.tables]
    if not _comparison_lock.acquire(blocking=False):
        raise TooMany("another model is being compared: try again in a minute")
    try:
        review = model_promotion.judge_promotion(
            request.model, models_folder, paths, force=request.force, fill_twin=_check_twin_answers
        )
    finally:
        _comparison_lock.release()
    now = context.clock()
    evidence = review.build_evidence() | {"forced": request.force, "tables": list(request.tables)}
    if review.refusal is None:
        registry.promote_version(review.folder, evidence | {"by": actor, "at": now})
    event = PROMOTED if review.refusal is None else REFUSED
    with context.store.begin() as tx:
        audit.set_audit_credential(tx, via)
        entry = AuditEntry(at=now, actor=actor, event=event, detail=evidence)
        audit.write_entry(tx, context.cluster_id, entry)
    if review.refusal is not None:
        raise IllegalTransition(review.refusal)
    return review


def _get_models_folder(context: ApiContext) -> Path:
    if context.models_dir is None:
        raise NotFound("this service has no folder of models (provision.models_dir)")
    return context.models_dir


def _get_table_path(context: ApiContext, name: str) -> Path:
    if name not in list_tables(context):
        raise NotFound(f"there is no table {name} in {context.tables_dir} (provision.tables_dir)")
    assert context.tables_dir is not None  # noqa: S101 - it holds the table
    return context.tables_dir / name


def _check_twin_answers(
    policies: Sequence[Policy], paths: Sequence[Path], tables: Sequence[EpisodeTable]
) -> None:
    """Raise InputError if a policy needs the twin's answers and a table lacks them.

    The service does not compute them, because months of hand-overs take minutes of every core.
    """
    if not any(policy.needs.twin for policy in policies):
        return
    for path, table in zip(paths, tables, strict=True):
        if table.twins is None:
            raise InputError(
                f"{path.name} lacks the twin's forecasts: create it with `mirage episodes --twin`, "
                "or promote with `mirage models promote`, which computes them"
            )
