"""When each policy expects to release the standby: what it would plan in Slurm."""

import numpy as np
import pytest

from mirage.domain.decision import Action, HandoverView
from mirage.features.foretold import LEVELS
from mirage.policy import registry
from mirage.policy.boundary import threshold
from mirage.policy.foretold import FACTOR, Foretold
from mirage.policy.rules import Average, FixedLead, Quantile, Reactive
from mirage.policy.unserved import Unserved
from mirage.ports import Policy
from tests.policy.views import view, waits

HOUR = 3600


def seen(left_s: int = 20 * HOUR, **more: object) -> HandoverView:
    known = waits([2 * HOUR] * 40)
    return view(left_s, jobs=known, handovers=known, **more)


@pytest.mark.parametrize(
    "policy", [Average(), Quantile(), FixedLead(), Unserved("models/x", "gone")]
)
def test_a_rule_expects_it_its_lead_before_the_end(policy: Policy) -> None:
    shown = seen()
    decision = policy.decide(shown)
    assert decision.action is Action.WAIT
    assert decision.release_at == shown.predecessor_end - 2 * HOUR


def test_reactive_expects_it_at_the_end() -> None:
    shown = seen()
    assert Reactive().decide(shown).release_at == shown.predecessor_end


def test_a_stopping_policy_expects_it_when_it_would_be_late_often_enough() -> None:
    wait_s = (np.array(LEVELS) * 10 * HOUR).astype(np.int32)
    shown = seen(twin_s=wait_s)
    least = threshold(shown.overlap_price, FACTOR)
    decision = Foretold().decide(shown)
    assert decision.action is Action.WAIT
    assert decision.release_at is not None
    lead_h = (shown.predecessor_end - decision.release_at) / HOUR
    assert lead_h == pytest.approx(10 * (1.0 - least), abs=0.01)
    at_hand = seen(round(lead_h * HOUR) - 60, twin_s=wait_s)
    assert Foretold().decide(at_hand).action is Action.FREE


@pytest.mark.parametrize("name", ["auto", "twin", "quantile", "average", "fixed-lead", "reactive"])
def test_all_that_wait_for_a_moment_say_which(name: str) -> None:
    assert registry.policy(name).decide(seen()).release_at is not None
