"""Of a chain whose links ask each other to end nothing is released before the floor, or while
nobody waits."""

from dataclasses import replace

import pytest

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import Style
from tests.integration.provision.test_release_planning import (
    START,
    TOLD,
    Leads,
    Site,
    runs,
    shown_plan,
    stands,
)
from tests.support.provision.printed import print_row
from tests.support.provision.slurm_jobs import CHAIN, HOUR, NOW


@pytest.fixture
def switches(acting_chain_store: Store) -> Store:
    """The chain's links switch, after ten minutes of start-up each."""
    with acting_chain_store.begin() as tx:
        chain = replace(chains.get_chain(tx, 1, CHAIN), style=Style.SWITCH, max_overlap_s=None)
        chains.save_chain(tx, 1, chain)
    return acting_chain_store


WAITS = print_row(JobID="900", UserName="bob", UserID="1002", State="PENDING", Reason="Priority")
FLOOR_MIN = 10 + 144
"""The start-up, and a tenth of the time limit."""


def test_a_switch_chains_release_is_planned_at_the_floor_at_the_earliest(switches: Store) -> None:
    site = Site(switches, Leads(40.0), max_lead_s=48 * HOUR)
    assert site.tick(runs(), stands(), WAITS) == [("hold", 12, TOLD.format(FLOOR_MIN))]


@pytest.mark.parametrize(
    ("lead_s", "frees"), [(60 * FLOOR_MIN - 60, False), (60 * FLOOR_MIN, True)]
)
def test_a_switch_chains_standby_is_freed_at_the_floor_at_the_earliest(
    switches: Store, lead_s: int, frees: bool
) -> None:
    site = Site(switches, Leads(40.0), max_lead_s=48 * HOUR, max_touches=1)
    moves = site.tick(runs(), stands(), WAITS, now=START + lead_s)
    assert ([what for what, *_ in moves] == ["free"]) is frees
    assert frees or "min-runtime" in site.last.reason


def test_while_nobody_waits_a_switch_chain_plans_and_frees_nothing(switches: Store) -> None:
    site = Site(switches, Leads(40.0), max_lead_s=48 * HOUR)
    assert site.tick(runs(), stands(), now=START + 20 * HOUR) == []
    assert "no job waits for nodes" in site.last.reason
    assert site.tick(runs(), stands(), WAITS, now=START + 20 * HOUR + 60)[0][0] == "free"


def test_a_plan_near_its_release_goes_where_nobody_waits_any_more(switches: Store) -> None:
    site = Site(switches, Leads(40.0), max_lead_s=48 * HOUR)
    planned = stands(shown_plan(FLOOR_MIN))
    site.tick(runs(), stands(), WAITS)
    assert site.tick(runs(), planned, now=NOW + 60) == [], "somebody may come"
    near = START + 60 * FLOOR_MIN - 500
    assert site.tick(runs(), planned, WAITS, now=near) == []
    assert site.tick(runs(), planned, now=near + 60) == [("hold", 12, "afterany:11")]


def test_of_a_queue_with_gaps_nobody_can_say_that_none_waits(switches: Store) -> None:
    site = Site(switches, Leads(40.0), max_lead_s=48 * HOUR)
    site.settings = replace(site.settings, hides_jobs=lambda: True)
    assert site.tick(runs(), stands()) == [("hold", 12, TOLD.format(FLOOR_MIN))]
