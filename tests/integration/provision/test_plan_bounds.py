"""The bounds of a planned release: max-overlap, and the admins' limits, which may change later."""

from typing import Any

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.provision.overlap_budget import read_overlap_budget
from tests.integration.provision.test_release_planning import (
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
from tests.support.provision.slurm_jobs import ALICE, HOUR, NOW, comment, register


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


class Wide:
    """A chain whose links have 64 nodes: three hours of overlap cost 192 node-hours of 500."""

    def __init__(self, number: int) -> None:
        self.first, self.second = 10 * number + 101, 10 * number + 102
        self.chain_id = ChainId(f"wide{number:06}")

    def rows(self, lead_h: float | None = None, *, released: bool = False) -> str:
        wide: dict[str, Any] = {"NumNodes": "64"}
        runs_now = runs(JobID=str(self.first), Comment=comment(1, self.chain_id), **wide)
        waits = HELD if lead_h is None else shown_plan(minutes(lead_h))
        cells = wide | {"JobID": str(self.second), "Comment": comment(2, self.chain_id)}
        if released:
            waits = "(null)"
            cells |= {"EligibleTime": str(END - 3 * HOUR), "Reason": "Priority"}
        return runs_now + stands(waits.replace("11", str(self.first)), **cells)


WIDE = [Wide(number) for number in range(5)]


def test_plans_share_the_budgets(acting_store: Store) -> None:
    """Slurm releases all that are planned, whoever looks: they must fit together."""
    site = Site(acting_store, user_overlap_node_h=500.0)
    moves = site.tick(*(chain.rows() for chain in WIDE))
    assert [(what, job) for what, job, _ in moves] == [("hold", w.second) for w in WIDE[:2]]
    shown = [*(w.rows(3.0) for w in WIDE[:2]), *(w.rows() for w in WIDE[2:])]
    assert site.tick(*shown, now=NOW + 60) == []
    after = [*(w.rows(released=True) for w in WIDE[:2]), *(w.rows() for w in WIDE[2:])]
    due = END - 3 * HOUR + 30
    assert site.tick(*after, now=due) == []
    with acting_store.read() as tx:
        spent = read_overlap_budget(tx, 1, due, site.settings.limits).sum_spent("ml", ALICE)
    assert 0.7 * 500 < spent.account <= 500


def test_of_too_many_plans_the_latest_go(acting_store: Store) -> None:
    """The links planned by themselves while the service was away."""
    for chain in WIDE:
        register(acting_store, chain_id=chain.chain_id, now=START)
    site = Site(acting_store, Leads(None), user_overlap_node_h=500.0)
    leads = (2.9, 3.1, 2.8, 3.2, 3.0)
    moves = site.tick(*(w.rows(lead) for w, lead in zip(WIDE, leads, strict=True)))
    assert moves == [("hold", WIDE[n].second, f"afterany:{WIDE[n].first}") for n in (0, 2, 4)]


def test_a_heterogeneous_job_has_none(acting_store: Store) -> None:
    site = Site(acting_store)
    leads: dict[str, Any] = {"HetJobID": "12"}
    rest = stands("(null)", **leads | {"JobID": "13"})
    assert site.tick(runs(), stands(**leads), rest) == []
    assert site.last.reason.endswith("since the job is heterogeneous")
