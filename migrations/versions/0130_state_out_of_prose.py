"""chains: who brought them into their state and why, and what they are at risk of, as columns.

Until now a sentence (`note`) said so, and its beginning decided what Slurm was told. The columns
are filled from the sentences that releases up to 0.1.0 wrote; one that is none of these is kept
whole, as the detail of the reason `unrecorded`. What else was read from the audit is copied: when a
chain was resumed, which job was registered, when a standby was replaced, when the cluster was
demoted, what the service has submitted. The table `orders` begins empty: what Slurm refused within
the last quarter of an hour may be asked for once more.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0130"
down_revision = "0120"

_TEXTS = ("actor", "reason", "asked_by", "reason_detail", "risk_detail")
_NUMBERS = ("reason_link", "reason_job", "risk_link", "risk_job", "resumed_at", "registered_job")
_OURS = ("NoStandby", "StandbyVanished", "LinkUnknown", "SubmitRefused")
_PAUSED, _AT_RISK = "paused: ", "at risk: "

_ASKED = re.compile(r"(?:paused|resumed|cancelled) by (?P<by>.*)", re.DOTALL)
_PAUSES = (
    ("links-failed-fast", re.compile(r"\d+ links in a row failed within .*", re.DOTALL)),
    ("links-brief", re.compile(r"\d+ links in a row ran for less than a minute.*", re.DOTALL)),
    ("link-turned-away", re.compile(r"its links failed at once.*", re.DOTALL)),
    (
        "standby-gone",
        re.compile(
            r"the standby for link (?P<link>\d+) \(job (?P<job>\d+)\) is gone: (?P<detail>\w*), "
            r"as was the one before it"
        ),
    ),
)
_ENDS = (
    ("never-seen", re.compile(r"Slurm has never shown a job of it")),
    ("never-started", re.compile(r"cancelled before it started")),
    ("link-cancelled", re.compile(r"link (?P<link>\d+) was cancelled")),
    ("all-links-ran", re.compile(r"all (?P<link>\d+) links ran")),
    ("total-ran", re.compile(r"its links ran for (?P<hours>\d+\.\d) h in all")),
    ("link-ended", re.compile(r"ended with link (?P<link>\d+), (?P<detail>\w*)")),
)
_RISK = re.compile(
    r"(?:the standby for |no standby stands behind |Slurm does not know |Slurm refuses )?"
    r"link (?P<link>\d+)(?: \(job (?P<job>\d+)\))?(?P<rest>.*)",
    re.DOTALL,
)

_chains = sa.table(
    "chains",
    *map(sa.column, ("chain_id", "user", "state", "note", "at_risk", *_TEXTS, *_NUMBERS)),
)
_links = sa.table("links", *map(sa.column, ("chain_id", "index", "replaced_at")))
_clusters = sa.table("clusters", *map(sa.column, ("id", "demoted_at")))
_decisions = sa.table(
    "decisions",
    *map(sa.column, ("id", "chain_id", "action", "effect", "at", "submitted_at")),
)
_audit = sa.table(
    "audit",
    *map(sa.column, ("id", "cluster_id", "chain_id", "job_id", "actor", "event", "at")),
    sa.column("detail", sa.JSON),
)


def upgrade() -> None:
    for name in _TEXTS:
        op.add_column("chains", sa.Column(name, sa.Text()))
    for name in _NUMBERS:
        op.add_column("chains", sa.Column(name, sa.BigInteger()))
    op.add_column("links", sa.Column("replaced_at", sa.BigInteger()))
    op.add_column("clusters", sa.Column("demoted_at", sa.BigInteger()))
    op.add_column("decisions", sa.Column("submitted_at", sa.BigInteger()))
    op.create_table(
        "orders",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("order", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_orders_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_orders"),
    )
    columns = ["cluster_id", "job_id", "order", "at"]
    op.create_index("ix_orders_cluster_id_job_id_order_at", "orders", columns)
    op.create_index("ix_orders_cluster_id_at", "orders", ["cluster_id", "at"])
    _fill_chains()
    _copy_the_audit()
    with op.batch_alter_table("chains") as batch:
        batch.drop_column("note")


def _fill_chains() -> None:
    query = sa.select(_chains.c.chain_id, _chains.c.state, _chains.c.note, _chains.c.at_risk)
    for row in op.get_bind().execute(query).all():
        found = _cause(row.state, row.note) | _risk(row.at_risk, row.note)
        if found:
            _set(row.chain_id, found)


def _set(chain_id: str, values: dict[str, Any]) -> None:
    op.execute(_chains.update().where(_chains.c.chain_id == chain_id).values(**values))


def _cause(state: str, note: str) -> dict[str, Any]:
    """Of an active chain nothing: what its next look finds is written then."""
    if state == "active":
        return {}
    asked = _ASKED.fullmatch(note)
    if asked is not None and state in {"paused", "cancelled"}:
        return _columns("user", "asked", by=asked["by"])
    paused = state == "paused"
    if paused and not note.startswith(_PAUSED):
        # Any other pause was somebody's, whoever that was.
        return _columns("user", "unrecorded", detail=note)
    told = note.removeprefix(_PAUSED)
    for reason, form in _PAUSES if paused else _ENDS:
        match = form.fullmatch(told)
        if match is not None:
            return _columns("mirage", reason, **_about(match))
    return _columns("mirage", "unrecorded", detail=told)


def _columns(actor: str, reason: str, **about: Any) -> dict[str, Any]:
    return {
        "actor": actor,
        "reason": reason,
        "asked_by": about.get("by", ""),
        "reason_link": about.get("link"),
        "reason_job": about.get("job"),
        "reason_detail": about.get("detail", ""),
    }


def _about(match: re.Match[str]) -> dict[str, Any]:
    found = match.groupdict()
    about: dict[str, Any] = {k: int(v) for k, v in found.items() if k in {"link", "job"} and v}
    if "hours" in found:
        about["detail"] = str(round(float(found["hours"]) * 3600))
    elif "detail" in found:
        about["detail"] = found["detail"]
    return about


def _risk(word: str, note: str) -> dict[str, Any]:
    if not word:
        return {}
    match = _RISK.fullmatch(note.removeprefix(_AT_RISK))
    about = {} if match is None else _about(match)
    rest = "" if match is None else match["rest"]
    ours = word in _OURS
    return {
        "at_risk": word if ours else "Hindered",
        "risk_link": about.get("link"),
        "risk_job": about.get("job"),
        # What follows the colon is how the standby ended, or Slurm's refusal.
        "risk_detail": rest.partition(": ")[2] if ours else word,
    }


def _copy_the_audit() -> None:
    resumed = _newest("asked: resumed", _audit.c.at, _audit.c.chain_id == _chains.c.chain_id)
    op.execute(_chains.update().values(resumed_at=resumed))
    theirs = sa.and_(_audit.c.chain_id == _chains.c.chain_id, _audit.c.actor == _chains.c.user)
    named = _newest("registered", _audit.c.job_id, theirs)
    op.execute(_chains.update().values(registered_job=named))
    demoted = _newest("demoted to shadow", _audit.c.at, _audit.c.cluster_id == _clusters.c.id)
    op.execute(_clusters.update().values(demoted_at=demoted))
    since = sa.and_(_audit.c.chain_id == _decisions.c.chain_id, _audit.c.at >= _decisions.c.at)
    done = _newest("submit: done", _audit.c.at, since)
    open_ones = sa.and_(_decisions.c.action == "submit", _decisions.c.effect == "intended")
    op.execute(_decisions.update().where(open_ones).values(submitted_at=done))
    for chain_id, index, at in _replaced():
        this = sa.and_(_links.c.chain_id == chain_id, _links.c.index == index)
        op.execute(_links.update().where(this).values(replaced_at=at))


def _newest(
    event: str, column: sa.ColumnElement[Any], where: sa.ColumnElement[bool]
) -> sa.ScalarSelect[Any]:
    query = sa.select(column).where(_audit.c.event == event, where)
    return query.order_by(_audit.c.id.desc()).limit(1).scalar_subquery()


def _replaced() -> Iterator[tuple[str, int, int]]:
    """(chain, link, when) of each standby that took another's place, oldest first."""
    query = sa.select(_audit.c.chain_id, _audit.c.at, _audit.c.detail)
    query = query.where(_audit.c.event == "replaced").order_by(_audit.c.id)
    for chain_id, at, detail in op.get_bind().execute(query).all():
        found = json.loads(detail) if isinstance(detail, str) else detail
        if chain_id is not None and "link" in found:
            yield chain_id, found["link"], at
