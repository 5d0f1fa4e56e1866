"""The overlap budgets of account and cluster are everybody's: one user uses up one user's share."""

from typing import Any

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.provision.control.limits import Spent
from mirage.provision.overlap_budget import read_overlap_budget
from tests.integration.provision.test_release_planning import (
    END,
    HELD,
    LIMIT,
    Leads,
    Site,
    minutes,
    runs,
    shown_plan,
    stands,
)
from tests.support.provision.slurm_jobs import HOUR, NOW, comment

MALLORY, BOB = 666, 1002
SAYS = ["", "mirage:planned-by=service ", "mirage:lead=12:00:00 "]
"""In the comment of a standby that her own sbatch submitted, with its plan."""


class Pair:
    """One of an owner's chains in account ml: a link of one node, and a standby."""

    def __init__(self, number: int, uid: int) -> None:
        self.first, self.second = 10 * number + 101, 10 * number + 102
        self.chain_id = ChainId(f"pair{number:06}")
        self.who: dict[str, Any] = {"UserID": str(uid), "UserName": f"user{uid}"}

    def rows(self, waits: str = HELD, says: str = "", **cells: str) -> str:
        before = runs(JobID=str(self.first), Comment=comment(1, self.chain_id), **self.who)
        mine: dict[str, Any] = {
            "JobID": str(self.second),
            "Comment": f"{says}{comment(2, self.chain_id)}",
        }
        return before + stands(
            waits.replace("11", str(self.first)), **{**mine, **self.who, **cells}
        )


HERS = [Pair(number, MALLORY) for number in range(10)]
HIS = Pair(50, BOB)
ALL_NODES = {"NumNodes": "64"}


@pytest.mark.parametrize("says", SAYS)
def test_plans_of_ones_own_that_ask_for_all_nodes_use_up_nobody_elses_budget(
    acting_store: Store, says: str
) -> None:
    site = Site(acting_store)
    plans = [pair.rows(shown_plan(minutes(12)), says, **ALL_NODES) for pair in HERS]
    moves = site.tick(*plans, HIS.rows())
    assert HIS.second in [job for _, job, _ in moves]


@pytest.mark.parametrize("says", SAYS)
def test_nor_do_they_once_slurm_has_made_them_eligible(acting_store: Store, says: str) -> None:
    site = Site(acting_store, Leads(None))
    plans = [pair.rows(shown_plan(minutes(12)), says, **ALL_NODES) for pair in HERS]
    site.tick(*plans)
    due = END - 12 * HOUR + 60
    out = {"EligibleTime": str(due - 55), "Reason": "Resources"}
    released = [pair.rows("(null)", says, **ALL_NODES, **out) for pair in HERS]
    site.policy = Leads(4.0)
    moves = site.tick(*released, HIS.rows(), now=due)
    assert [job for _, job, _ in moves] == [HIS.second]


def test_what_really_overlapped_counts_and_of_one_user_a_share_at_most(
    acting_store: Store,
) -> None:
    """She released her standbys herself, and they run beside their predecessors."""
    site = Site(acting_store, Leads(None))
    site.tick(*(pair.rows() for pair in HERS))
    beside = {
        "State": "RUNNING",
        "Reason": "None",
        "NodeList": "g[2-65]",
        "TimeLimit": "1-00:00:00",
    }
    beside |= {"StartTime": str(NOW + 60), "EndTime": str(NOW + 60 + LIMIT)}
    beside |= {"EligibleTime": str(NOW + 60), **ALL_NODES}
    running = [pair.rows("(null)", **beside) for pair in HERS]
    site.policy = Leads(4.0)
    now = NOW + HOUR + 60
    moves = site.tick(*running, HIS.rows(), now=now)
    assert [job for _, job, _ in moves] == [HIS.second]
    with acting_store.read() as tx:
        budget = read_overlap_budget(tx, 1, now, site.settings.limits)
    assert budget.sum_spent("ml", MALLORY).user == 10 * 64
    assert budget.sum_spent("ml", BOB) == Spent(user=0, account=250, cluster=250)


def test_mirage_releases_no_more_for_one_user_than_that_users_share(acting_store: Store) -> None:
    """Each of her releases may cost 192 node-hours; the account has 500."""
    site = Site(acting_store)
    wide = [pair.rows(**ALL_NODES) for pair in HERS[:3]]
    moves = site.tick(*wide, HIS.rows())
    assert [job for _, job, _ in moves] == [HERS[0].second, HIS.second]
