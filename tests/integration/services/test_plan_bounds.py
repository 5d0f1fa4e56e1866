"""The bounds of a planned release: max-overlap, and the admins' limits, which may change later."""

from typing import Any

import pytest

from mirage.store.database.engine import Store
from tests.integration.services.test_release_planning import (
    END,
    HELD,
    START,
    TOLD,
    Leads,
    Site,
    minutes,
    runs,
    shown_plan,
    stands,
)
from tests.support.services.slurm_jobs import HOUR, NOW, register


def test_no_link_is_planned_for_an_earlier_start_than_max_overlap_allows(
    acting_store: Store,
) -> None:
    register(acting_store, now=START, max_overlap_s=HOUR)
    site = Site(acting_store, Leads(8.0))
    assert site.tick(runs(), stands()) == [("hold", 12, TOLD.format(minutes(7)))]  # 1 h and p10


def test_a_plan_that_is_too_early_by_now_is_moved_whatever_that_saves(acting_store: Store) -> None:
    """The time limit was raised: an hour's overlap became three."""
    register(acting_store, now=START, max_overlap_s=HOUR)
    site = Site(acting_store, Leads(0.0))
    longer: dict[str, Any] = {"limit": "1-02:00:00", "EndTime": str(END + 2 * HOUR)}
    told = site.tick(runs(**longer), stands(shown_plan(minutes(1))))
    assert told == [("hold", 12, "afterany:11")]
    site = Site(acting_store, Leads(None))
    told = site.tick(runs(**longer), stands(shown_plan(minutes(1))), now=NOW + 60)
    assert told == [("hold", 12, "afterany:11")]


@pytest.mark.parametrize("lead_h", [3.0, None], ids=["asked", "not asked"])
@pytest.mark.parametrize("limits", [{"max_lead_s": 2 * HOUR}, {"account_overlap_node_h": 0.0}])
def test_a_plan_beyond_limits_that_were_tightened_does_not_stand(
    acting_store: Store, lead_h: float | None, limits: dict[str, float]
) -> None:
    Site(acting_store).tick(runs(), stands())
    site = Site(acting_store, Leads(lead_h), **limits)
    told = site.tick(runs(), stands(shown_plan(minutes(3))), now=NOW + 60)
    shorter = lead_h is not None and "max_lead_s" in limits
    assert told == [("hold", 12, TOLD.format(minutes(2)) if shorter else "afterany:11")]
    site = Site(acting_store, Leads(lead_h), **limits)
    left = stands(shown_plan(minutes(2)) if shorter else HELD)
    assert site.tick(runs(), left, now=NOW + 120) == []
