"""Converts a chain to a row, and back."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from mirage.database.schema.tables import chains
from mirage.domain.chain import Chain, ChainId, ChainMode, ChainState, Presubmit, Style
from mirage.domain.chain_cause import Actor, Cause, ChainRisk, Reason, Risk

CHAIN_COLUMNS = [c for c in chains.columns if c.name != "cluster_id"]
_NAMES = [c.name for c in CHAIN_COLUMNS]
_CAUSE_COLUMNS = frozenset(
    ("actor", "reason", "asked_by", "reason_link", "reason_job", "reason_detail")
)
_RISK_COLUMNS = frozenset(("at_risk", "risk_link", "risk_job", "risk_detail"))
_PLAIN_COLUMNS = [name for name in _NAMES if name not in _CAUSE_COLUMNS | _RISK_COLUMNS]


def build_chain_values(chain: Chain) -> dict[str, Any]:
    """Build the values of a chain's row, by column."""
    values = {name: getattr(chain, name) for name in _PLAIN_COLUMNS}
    values |= {"state": chain.state.value, "mode": chain.mode.value}
    values |= {"presubmit": chain.presubmit.value}
    values |= {"style": None if chain.style is None else chain.style.value}
    return values | _build_cause_values(chain.cause) | _build_risk_values(chain.at_risk)


def _build_cause_values(cause: Cause | None) -> dict[str, Any]:
    if cause is None:
        return dict.fromkeys(_CAUSE_COLUMNS)
    return {
        "actor": cause.actor.value,
        "reason": cause.reason.value,
        "asked_by": cause.by,
        "reason_link": cause.link,
        "reason_job": cause.job_id,
        "reason_detail": cause.detail,
    }


def _build_risk_values(risk: ChainRisk | None) -> dict[str, Any]:
    if risk is None:
        return dict.fromkeys(_RISK_COLUMNS) | {"at_risk": ""}
    return {
        "at_risk": risk.of.value,
        "risk_link": risk.link,
        "risk_job": risk.job_id,
        "risk_detail": risk.detail,
    }


def build_chain(row: Sequence[Any]) -> Chain:
    """Build the chain of a row, whose values are in the order of CHAIN_COLUMNS."""
    return _build_chain(tuple(row))


# A tick reads each live chain several times, and most have not changed since the last tick.
# Read by place, not by name: at 2,000 chains a mapping of each row took most of the time.
@lru_cache(maxsize=4096)
def _build_chain(row: tuple[Any, ...]) -> Chain:
    values = dict(zip(_NAMES, row, strict=True))
    plain = {name: values[name] for name in _PLAIN_COLUMNS}
    style = values["style"]
    plain["chain_id"] = ChainId(values["chain_id"])
    plain["state"] = ChainState(values["state"])
    plain["presubmit"], plain["mode"] = Presubmit(values["presubmit"]), ChainMode(values["mode"])
    plain["style"] = None if style is None else Style(style)
    return Chain(**plain, cause=_build_cause(values), at_risk=_build_risk(values))


def _build_cause(values: Mapping[str, Any]) -> Cause | None:
    if values["actor"] is None:
        return None
    return Cause(
        actor=Actor(values["actor"]),
        reason=Reason(values["reason"]),
        by=values["asked_by"],
        link=values["reason_link"],
        job_id=values["reason_job"],
        detail=values["reason_detail"],
    )


def _build_risk(values: Mapping[str, Any]) -> ChainRisk | None:
    if not values["at_risk"]:
        return None
    return ChainRisk(
        of=Risk(values["at_risk"]),
        link=values["risk_link"],
        job_id=values["risk_job"],
        detail=values["risk_detail"],
    )
