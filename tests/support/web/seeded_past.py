"""Stores results of forecasts, outcomes of hand-overs and a report, for the pages on the past."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mirage.database.chains import handover_outcomes
from mirage.database.chains.handover_outcomes import OutcomeKind, OutcomeRow
from mirage.database.forecasts import job_forecasts
from mirage.database.operations import reports
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import ChainId
from mirage.judging.evaluation import HandoverOutcomes, build_class_masks, evaluate_policies
from mirage.provision.forecasts.accuracy_tally import Tally
from mirage.reports.handover_outcomes import split_lateness
from mirage.reports.recommendation import RecommendationEvidence, choose_recommendation
from mirage.twin.twin_features import LEVELS
from tests.support.api.running import NOW

HOUR, DAY = 3600, 86400
PRICE = 0.5
DAYS = 90


def seed(
    tx: Transaction, cluster_id: int, links: Sequence[dict[str, Any]], users: dict[str, Any]
) -> None:
    """`links`: rows of the table; `users`: by chain, (name, uid)."""
    rng = random.Random(1)  # noqa: S311 - the same each time
    if not links:
        return
    for day in range(DAYS):
        at = (NOW - day * DAY) // DAY * DAY
        for partition, typical_h in (("gpu", 6.0), ("long", 20.0), ("cpu", 0.5)):
            tally = _build_tally(typical_h, rng).to_stored()
            job_forecasts.put_tally(tx, cluster_id, at, partition, tally)
    pairs = pairwise(links)
    outcomes = [_build_outcome(b, a, users, rng) for b, a in pairs if _is_complete(b, a)]
    handover_outcomes.put_outcomes(tx, cluster_id, outcomes)
    reports.put_report(tx, cluster_id, reports.SHADOW, report(), at=NOW - 6 * HOUR)


def _build_tally(typical_h: float, rng: random.Random) -> Tally:
    """Build a tally of forecasts that are a little too narrow; one job in ten does not wait."""
    tally = Tally()
    middle = typical_h * HOUR * rng.lognormvariate(0, 0.3)
    quantiles = tuple(round(middle * 2.0 * level**1.3) for level in LEVELS)
    for _ in range(15):
        wait = 0 if rng.random() < 0.1 else round(middle * 2.2 * rng.random() ** 1.3)
        planned = round(wait * rng.lognormvariate(0.3, 0.8)) if rng.random() < 0.5 else None
        tally.add_outcome(quantiles, wait, planned)
    tally.gave_up += 1
    return tally


def _is_complete(before: dict[str, Any], after: dict[str, Any]) -> bool:
    is_same_chain = before["chain_id"] == after["chain_id"]
    return is_same_chain and before["end"] is not None and after["start"] is not None


def _build_outcome(
    before: dict[str, Any], after: dict[str, Any], users: dict[str, Any], rng: random.Random
) -> OutcomeRow:
    user, uid = users[after["chain_id"]]
    kind = OutcomeKind.SHADOW if uid % 3 == 0 else OutcomeKind.ACT
    late_s = after["start"] - before["end"]
    wait_s = max(0, late_s + 2 * HOUR)
    leads = {"mirage": 2.0, "reactive": 0, "fixed-lead": 3.0, "average": 1.5, "slurm-estimate": 1.0}
    by_policy = {
        p: split_lateness(wait_s - round(h * HOUR * rng.uniform(0.5, 1.5)))
        for p, h in leads.items()
    }
    by_policy["mirage"] = split_lateness(late_s)
    return OutcomeRow(
        chain_id=ChainId(after["chain_id"]),
        index=after["index"],
        at=max(before["end"], after["start"]),
        partition=after["partition"],
        account=after["account"],
        user=user,
        uid=uid,
        nodes=after["nodes"],
        kind=kind,
        actual=by_policy["mirage"] if kind is OutcomeKind.ACT else by_policy["reactive"],
        by_policy=by_policy,
    )


def report() -> dict[str, Any]:
    """Build a report as `mirage report shadow --json` prints it, of random hand-overs."""
    draw = np.random.default_rng(1)
    start = NOW - 28 * DAY + np.arange(112) * 6 * HOUR
    means = {"reactive": 6.0, "accrue-always": 1.2, "auto": 0.2, "fixed-lead": -0.8}
    means |= {"planned-quantile": 0.9, "average": 1.5, "slurm-estimate": 3.0, "oracle": 0.0}
    means |= {"switch-quantile": -9.0}
    handovers = {
        name: HandoverOutcomes(
            start_point=start,
            x_h=draw.normal(mean, 0.2 if name == "oracle" else 2.0, size=len(start)),
            lead_h=np.zeros(len(start)),
        )
        for name, mean in means.items()
    }
    recommendation = choose_recommendation(RecommendationEvidence.from_handovers(handovers, PRICE))
    recommendation_document = {
        "verdict": recommendation.verdict.value,
        "advice": recommendation.advice,
        "reason": recommendation.reason,
    }
    load = build_class_masks(handovers["reactive"].interruption_h)
    return {
        "recommendation": recommendation_document,
        "trace": "the history of lab",
        "cluster": "lab",
        "accrue_always": False,
        "overlap_price": PRICE,
        "from": "2026-12-18T00:00:00+00:00",
        "until": "2027-01-15T00:00:00+00:00",
        "pairs": [{"name": "gpu: 4 nodes, 2-00:00:00", "user_class": "new user"}],
        "groups": [
            {
                "by": "all",
                "name": "all",
                "days": 28,
                "recommendation": recommendation_document,
                "policies": evaluate_policies(handovers, load, PRICE),
                "against": {},
            }
        ],
    }
