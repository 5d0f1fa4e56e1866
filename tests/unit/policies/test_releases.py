"""When each policy expects to release the standby: what it would plan in Slurm."""

import numpy as np
import pytest

from mirage.domain.decision import Action, PolicyView
from mirage.domain.ports import Policy
from mirage.policies import registry
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.rules.lead_rules import Average, FixedLead, Quantile, Reactive
from mirage.policies.twin_policy import TwinPolicy
from mirage.twin.twin_features import LEVELS
from tests.support.policies.views import view, waits

HOUR = 3600


def seen(left_s: int = 20 * HOUR, **more: object) -> PolicyView:
    known = waits([2 * HOUR] * 40)
    return view(left_s, jobs=known, handovers=known, **more)


@pytest.mark.parametrize(
    "policy", [Average(), Quantile(), FixedLead(), UnavailableModel("models/x", "gone")]
)
def test_a_rule_expects_it_its_lead_before_the_end(policy: Policy) -> None:
    shown = seen()
    decision = policy.decide(shown)
    assert decision.action is Action.WAIT
    assert decision.release_at == shown.predecessor_end - 2 * HOUR


def test_reactive_expects_it_at_the_end() -> None:
    shown = seen()
    assert Reactive().decide(shown).release_at == shown.predecessor_end


def test_the_twin_expects_it_at_the_lead_that_is_expected_to_cost_least() -> None:
    wait_s = (np.array(LEVELS) * 10 * HOUR).astype(np.int32)
    shown = seen(twin_s=wait_s)
    decision = TwinPolicy().decide(shown)
    assert decision.action is Action.WAIT
    assert decision.release_at is not None
    lead_s = shown.predecessor_end - decision.release_at
    # Without returns the newsvendor's fractile.
    assert lead_s == pytest.approx(10 * HOUR / (1.0 + shown.overlap_price), abs=HOUR / 2)
    assert TwinPolicy().decide(seen(lead_s, twin_s=wait_s)).action is Action.FREE
    assert TwinPolicy().decide(seen(lead_s + 60, twin_s=wait_s)).action is Action.WAIT


@pytest.mark.parametrize("wait_s", [0, 1800])
def test_of_the_same_wait_in_all_futures_it_is_that(wait_s: int) -> None:
    shown = seen(twin_s=np.full(len(LEVELS), wait_s, dtype=np.int32))
    release_at = TwinPolicy().decide(shown).release_at
    assert release_at is not None
    assert shown.predecessor_end - release_at == wait_s


@pytest.mark.parametrize("name", ["auto", "twin", "quantile", "average", "fixed-lead", "reactive"])
def test_all_that_wait_for_a_moment_say_which(name: str) -> None:
    assert registry.get_policy(name).decide(seen()).release_at is not None
