"""A link plans when Slurm is to release the next one: by what is known, within what is allowed."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest

from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.planning import HOUR, NEXT, OWN, Planning


def mixed(count: int) -> list[int]:
    """1, 2, 3 ... minutes in no order, so that nothing changes."""
    return [60 * (1 + 7 * n % count) for n in range(count)]


def test_it_is_the_quantile_by_price_of_what_like_jobs_waited(planning: Planning) -> None:
    planning.waited([9 * HOUR] * 30 + mixed(20))  # 1 to 20 min: the last twenty
    done = planning.plan()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert planning.lead_minutes() == 14  # two thirds: price 0.5
    assert planning.updates() == [
        f"update JobId={NEXT} Dependency=afterany:{OWN}?after:{OWN}+1426",
    ]
    assert "link 2, job 102, becomes eligible 1426 min after job 101 started" in planning.log()
    assert "20 jobs of similar nodes and time limit waited 2, 10 and 18 min" in planning.log()


def test_where_the_next_link_may_give_its_nodes_back_it_is_released_earlier(
    planning: Planning,
) -> None:
    # One job in ten waited two hours: an early start costs some minutes of the link's nodes.
    planning.waited([0] * 18 + [2 * HOUR] * 2)
    planning.plan(returns=2)
    assert planning.lead_minutes() == 120


@pytest.mark.parametrize(
    "words",
    [
        {"returns": 0},
        {"returns": ""},
        {"returns": "two"},
        {"returns": 2, "style": "wait"},
        {"returns": 2, "max_returns": 0},
        {"returns": 2, "max_returns": "some"},
    ],
    ids=str,
)
def test_where_the_next_link_holds_its_nodes_it_is_released_as_if_early_were_idle(
    planning: Planning, words: dict[str, Any]
) -> None:
    planning.waited([0] * 18 + [2 * HOUR] * 2)
    planning.plan(**words)
    assert planning.minutes() is None


def test_the_admin_may_forbid_returns_later_too(planning: Planning) -> None:
    planning.waited([0] * 18 + [2 * HOUR] * 2)
    planning.conf.write_text("max_returns = 0\n")
    planning.plan(returns=2)
    assert planning.minutes() is None


def test_a_switch_chain_reads_the_last_two_hundred_waits(planning: Planning) -> None:
    planning.waited([2 * HOUR] * 180 + [0] * 20)
    planning.plan(style="switch")
    assert planning.lead_minutes() == 120


@pytest.mark.parametrize(("price", "lead"), [("0.5", 14), ("2", 7), ("0.1", 19), ("0", 20)])
def test_a_dearer_overlap_gives_a_shorter_lead(planning: Planning, price: str, lead: int) -> None:
    planning.waited(mixed(20))
    planning.plan(price=price)
    assert planning.lead_minutes() == lead


def test_like_jobs_come_first_and_then_wider_samples(planning: Planning) -> None:
    planning.runs(nodes=4)
    planning.waited([HOUR] * 19, nodes=4)
    like = (planning.slurm.root / "sacct.rows").read_text()
    planning.waited([1800], nodes=64)
    planning.answers(like + (planning.slurm.root / "sacct.rows").read_text())
    planning.plan()
    assert planning.lead_minutes() == 60
    assert "20 jobs of the partition" in planning.log()


def test_sacct_is_asked_for_the_jobs_that_matter_alone(planning: Planning) -> None:
    planning.plan()
    (asked,) = planning.asked_sacct()
    for word in ("-X", "-P", "-S now-14days", "-r gpu", "-q normal", "-s BF,CA,CD"):
        assert word in asked


def test_sacct_is_asked_once_an_hour_whatever_comes_of_it(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.plan(2)
    planning.plan(3)
    assert len(planning.asked_sacct()) == 1
    assert planning.lead_minutes() == 60


@pytest.mark.parametrize("code", [1, 124])
def test_an_answer_that_was_cut_is_not_used(planning: Planning, code: int) -> None:
    planning.waited([HOUR] * 30, code=code)
    planning.plan()
    assert planning.minutes() is None
    assert "no past waits are known" in planning.log()
    planning.waited([HOUR] * 30)
    planning.plan(2)
    assert len(planning.asked_sacct()) == 1, "not again within the hour"


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "1 past wait of the partition is known, and a forecast needs 20"),
        (17, "17 past waits of the partition are known, and a forecast needs 20"),
    ],
)
def test_too_few_waits_are_not_called_none(planning: Planning, count: int, said: str) -> None:
    planning.waited([HOUR] * count)
    planning.plan()
    assert planning.minutes() is None
    assert said in planning.log()
    assert "no past waits are known" not in planning.log()


def test_an_answer_of_too_many_rows_is_not_used(planning: Planning) -> None:
    now = int(time.time())
    row = f"{now - 9000}|{now - 9000}|{now - 5400}|1|1440|600|COMPLETED\n"
    planning.answers(row * 50_001)
    planning.plan()
    assert planning.minutes() is None


def test_jobs_that_never_ran_and_rows_that_do_not_read_are_left_out(planning: Planning) -> None:
    planning.waited([HOUR] * 20)
    rows = (planning.slurm.root / "sacct.rows").read_text()
    now = int(time.time())
    bad = [
        f"{now}|{now}|Unknown|1|60|0|PENDING",
        f"{now - 9}|{now - 9}|{now}|1|1440|0|CANCELLED by 1000",
        "1|2|3",
        f"x|{now}|{now}|1|60|1|COMPLETED",
        f"{now}|{now}|{now - 5}|1|60|1|COMPLETED",
        "|" * 6,
        "\x1b[2J|||||" + "9" * 40,
    ]
    planning.answers("\n".join(bad) + "\n" + rows)
    planning.plan()
    assert "20 jobs" in planning.log()


def test_without_accounting_the_chains_own_hand_overs_count(planning: Planning) -> None:
    planning.answers("", 1)
    for link, wait in ((2, 600), (3, 1200), (4, 1800)):
        planning.has(f"waited/{link}", f"{planning.start} 0 {wait}")
    planning.is_at(5)
    planning.plan()
    # Its own wait, of a minute, is a hand-over too.
    assert (planning.chain / "waited/5").read_text().split()[2] == "60"
    assert planning.lead_minutes() == 20
    assert "4 of the chain's own links" in planning.log()


@pytest.mark.parametrize(
    "text", ["", "17", "1 2 3 4", "a b c", "-5 0 600", f"{10**13} 0 9", "9 0 600 "]
)
def test_a_note_that_is_torn_is_none(planning: Planning, text: str) -> None:
    planning.answers("", 1)
    (planning.chain / "waited/1").write_text("")
    planning.has("waited/2", text)
    planning.is_at(3)
    planning.has("waited/3", f"{planning.start} 0 1200")
    planning.plan()
    assert "1 of the chain's own links" in planning.log()


def test_a_note_from_the_future_or_of_somebody_elses_is_none(planning: Planning) -> None:
    planning.answers("", 1)
    planning.has("waited/2", f"{int(time.time()) + 9000} 0 7200")
    planning.has("waited/3", f"{planning.start} 0 7200")
    os.utime(planning.chain / "waited/3", (time.time() + 9000,) * 2)
    elsewhere = planning.slurm.root / "theirs"
    elsewhere.write_text(f"{planning.start} 0 7200\n")
    (planning.chain / "waited/4").symlink_to(elsewhere)
    planning.has("waited/5", f"{planning.start} 0 7200")
    (planning.chain / "waited/5").chmod(0o666)
    (planning.chain / "waited/6").write_text(f"{planning.start} 0 7200")  # no end of line: torn
    planning.has("waited/7", f"{planning.start} 0 600")
    planning.is_at(7)
    planning.plan()
    assert "1 of the chain's own links waited 10, 10 and 10 min" in planning.log()


def test_where_nothing_is_known_nothing_is_planned(planning: Planning) -> None:
    planning.answers("", 1)
    planned_at = time.time()
    planning.plan()
    assert (planning.minutes(), planning.updates()) == (None, [])
    assert planning.again_at() > planned_at, "perhaps later"


def test_where_jobs_start_at_once_the_standby_stays_as_it_is(planning: Planning) -> None:
    planning.waited([0] * 30)
    planning.plan()
    assert planning.updates() == []
    assert "becomes eligible at the end of job 101" in planning.log()


# --- what bounds it ------------------------------------------------------------------


def test_no_lead_is_longer_than_max_overlap_and_the_shortest_wait(planning: Planning) -> None:
    planning.waited([HOUR] * 2 + [9 * HOUR] * 18)
    planning.plan(max_overlap=7200)
    assert planning.lead_minutes() == 180  # two hours, and the hour that nine in ten wait
    assert "cut to what max-overlap allows" in planning.log()


@pytest.mark.parametrize(("hours", "lead"), [(9, 540), (11, 180)])
def test_one_that_may_give_its_nodes_back_counts_on_the_median_wait(
    planning: Planning, hours: int, lead: int
) -> None:
    """An hour `hours` times, else nine hours, which are the cheapest lead either way."""
    planning.waited([HOUR] * hours + [9 * HOUR] * (20 - hours))
    planning.plan(max_overlap=7200, returns=2)
    assert planning.lead_minutes() == lead


def test_by_default_a_quarter_of_the_time_limit_bounds_it(slurm: FakeSlurm) -> None:
    planning = Planning.on(slurm, limit_s=8 * HOUR)
    planning.waited([60] * 2 + [7 * HOUR] * 18)
    planning.plan()
    assert planning.lead_minutes() == 121


def test_the_plan_is_never_earlier_than_the_lead_allows(planning: Planning) -> None:
    planning.waited([3599] * 30)
    planning.plan(max_overlap=1)
    minutes = planning.minutes()
    assert minutes is not None
    assert planning.start + 60 * minutes >= planning.end - 3600


@pytest.mark.parametrize(
    ("conf", "lead"),
    [
        ("max_lead = 30\n", 30),
        ("max_lead = 90\n", 60),
        ("plans = own\n", 60),
        ("max_lead = 0", None),
    ],
)
def test_the_admins_word_bounds_a_plan(planning: Planning, conf: str, lead: int | None) -> None:
    planning.waited([HOUR] * 30)
    planning.conf.write_text(conf)
    planning.plan()
    assert planning.lead_minutes() == lead


@pytest.mark.parametrize("conf", ["plans = never\n", "plans = nver\n", "max_lead = soon\n"])
@pytest.mark.parametrize("told", [{}, {"lead": 3600}])
def test_a_site_that_wants_no_plans_gets_none(
    planning: Planning, conf: str, told: dict[str, Any]
) -> None:
    planning.waited([HOUR] * 30)
    planning.conf.write_text(conf)
    planning.plan(**told)
    assert planning.updates() == []
    assert "client.conf" in planning.log()


def test_the_word_of_the_host_of_submission_counts_on_every_node(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan(plans="never")
    assert planning.updates() == []
    planning.plan(max_lead="10")
    assert planning.lead_minutes() == 10


def test_a_lead_by_hand_goes_before_the_forecast_and_not_beyond_the_bound(
    planning: Planning,
) -> None:
    planning.waited([600] * 30)
    planning.plan(lead=2 * HOUR)
    assert planning.lead_minutes() == 120
    planning.plan(2, lead=23 * HOUR)
    assert planning.lead_minutes() == 250  # four hours, and the ten minutes that all wait


def test_a_lead_by_hand_needs_no_forecast(planning: Planning) -> None:
    planning.answers("", 1)
    planning.plan(lead=2 * HOUR)
    assert planning.lead_minutes() == 120
    assert "--mirage-lead" in planning.log()


# --- chains whose links switch: the price is worked out ------------------------------


def test_a_switch_chains_price_comes_of_its_start_up_and_its_time_limit(planning: Planning) -> None:
    planning.waited(mixed(100))
    planning.plan(style="switch")
    # (10 min + some seconds) / 24 h is under the least price: the 0.99 quantile.
    assert planning.lead_minutes() == 100
    assert "price 0.01" in planning.log()


def test_max_overlap_binds_a_switch_chain_only_where_the_user_gave_it(planning: Planning) -> None:
    planning.waited([60] * 10 + [9 * HOUR] * 90)
    planning.plan(style="switch")
    assert planning.lead_minutes() == 9 * 60
    planning.plan(2, style="switch", max_overlap=HOUR)
    assert planning.lead_minutes() == 61


def test_the_start_up_is_measured_from_the_chains_own_hand_overs(slurm: FakeSlurm) -> None:
    planning = Planning.on(slurm, limit_s=10 * HOUR)
    planning.waited(mixed(100))
    planning.has("waited/2", f"{planning.start} 0 60")
    lease = planning.chain / "handover" / "lease"
    lease.mkdir(parents=True)
    (lease / "2").write_text("2 100 0\n")
    os.utime(lease / "2", (planning.start + 1800,) * 2)  # half an hour after the job's start
    planning.is_at(3)
    planning.plan(style="switch")
    said = re.search(r"price ([\d.]+)", planning.log())
    assert said is not None
    assert 0.05 <= float(said[1]) <= 0.06
