"""Plans that stand in Slurm, as squeue prints them, and standbys that Slurm released by one."""

from dataclasses import replace

import pytest

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Link, Planner, Position
from mirage.domain.job import JobState
from tests.support.provision.printed import follow_queue, print_row
from tests.support.provision.slurm_jobs import CHAIN, HOUR, NOW, comment, ended_record, links, sync

START = NOW - 600
END = START + HOUR
PLAN = "afterany:11(unfulfilled)?after:11+{}(unfulfilled)"


def runs(start: int = START, **cells: str) -> str:
    given = {"State": "RUNNING", "Reason": "None", "NodeList": "g1"}
    given |= {"StartTime": str(start), "EndTime": str(start + HOUR), "Comment": comment(1)}
    return print_row(**given | cells)


def stands(dependency: str, **cells: str) -> str:
    given = {"JobID": "12", "Dependency": dependency, "Reason": "Dependency"}
    given |= {"EligibleTime": "N/A", "StartTime": "N/A", "EndTime": "N/A", "Comment": comment(2)}
    return print_row(**given | {"SubmitTime": str(START)} | cells)


def out(eligible: int, **cells: str) -> str:
    """Eligible, and waiting as others do."""
    given = {"EligibleTime": str(eligible), "Reason": "Priority"}
    return stands("(null)", **given | cells)


def find_standby(store: Store) -> Link:
    return links(store)[2]


def test_a_plan_is_read_where_squeue_shows_one(lab_store: Store) -> None:
    follow_queue(lab_store, runs() + stands(PLAN.format(45)))
    found = find_standby(lab_store)
    assert (found.position, found.plan_min) == (Position.HELD, 45)
    assert (found.planned_release, found.planned_by) == (START + 45 * 60, Planner.LINK)
    assert (found.freed_at, found.freed_by) == (None, None)


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ("mirage:style=concurrent,lead=0:15:00", Planner.USER),
        ("mirage:planned-by=service", Planner.SERVICE),
        ("mirage:planned-by=nobody", Planner.LINK),
    ],
)
def test_the_standbys_comment_tells_whose_plan_its_link_wrote(
    lab_store: Store, said: str, by: Planner
) -> None:
    follow_queue(lab_store, runs() + stands(PLAN.format(45), Comment=f"{said} mirage:{CHAIN}:2"))
    assert find_standby(lab_store).planned_by is by


@pytest.mark.parametrize("users", ["afterok:7?after:11+5", "afterany:11?after:7+5", "rubbish"])
def test_what_is_no_plan_of_ours_has_no_horizon(lab_store: Store, users: str) -> None:
    follow_queue(lab_store, runs() + stands(users))
    assert (find_standby(lab_store).plan_min, find_standby(lab_store).planned_by) == (None, None)


def test_of_a_predecessor_that_is_requeued_the_plan_stands_and_its_instant_is_not_known(
    lab_store: Store,
) -> None:
    follow_queue(lab_store, runs() + stands(PLAN.format(45)))
    waits = print_row(Comment=comment(1), SubmitTime=str(NOW), EligibleTime=str(NOW + 120))
    follow_queue(lab_store, waits + stands(PLAN.format(45)), NOW + 60)
    assert (find_standby(lab_store).plan_min, find_standby(lab_store).planned_release) == (45, None)
    again = runs(NOW + 200, SubmitTime=str(NOW))
    follow_queue(lab_store, again + stands(PLAN.format(45)), NOW + 240)
    assert find_standby(lab_store).planned_release == NOW + 200 + 45 * 60  # it counts anew
    assert find_standby(lab_store).planned_by is Planner.LINK


def planned_by(store: Store, by: Planner) -> None:
    """As after a move of the service, or a first look."""
    follow_queue(store, runs() + stands(PLAN.format(45)))
    with store.begin() as tx:
        found = chains.list_links(tx, 1, ChainId(CHAIN))[1]
        chains.save_link(tx, 1, replace(found, planned_by=by))


@pytest.mark.parametrize("changed", [PLAN.format(50), "afterany:11(unfulfilled)"])
@pytest.mark.parametrize("by", [Planner.SERVICE, Planner.USER])
def test_a_plan_that_somebody_changed_or_took_away_is_theirs(
    lab_store: Store, by: Planner, changed: str
) -> None:
    planned_by(lab_store, by)
    for later in (60, 120):
        follow_queue(lab_store, runs() + stands(changed), NOW + later)
        assert find_standby(lab_store).planned_by is Planner.USER


def test_the_running_link_may_plan_again(lab_store: Store) -> None:
    planned_by(lab_store, Planner.LINK)
    follow_queue(lab_store, runs() + stands(PLAN.format(50)), NOW + 60)
    assert (find_standby(lab_store).plan_min, find_standby(lab_store).planned_by) == (
        50,
        Planner.LINK,
    )


@pytest.mark.parametrize("by", list(Planner))
def test_slurm_released_it_by_the_plan(lab_store: Store, by: Planner) -> None:
    planned_by(lab_store, by)
    due = START + 45 * 60
    follow_queue(lab_store, runs() + out(due + 22), due + 40)
    found = find_standby(lab_store)
    assert (found.position, found.freed_at, found.freed_by) == (Position.FREE, due + 22, by)


def test_its_owner_let_it_go_before_the_plan_was_due(lab_store: Store) -> None:
    planned_by(lab_store, Planner.SERVICE)
    follow_queue(lab_store, runs() + out(NOW + 30), NOW + 60)
    assert (find_standby(lab_store).position, find_standby(lab_store).freed_at) == (
        Position.FREE,
        None,
    )


def test_what_became_eligible_at_its_predecessors_end_was_not_released(lab_store: Store) -> None:
    planned_by(lab_store, Planner.SERVICE)
    over = runs(State="COMPLETED", EndTime=str(NOW + 30))
    follow_queue(lab_store, over + out(NOW + 31), NOW + 60)
    assert find_standby(lab_store).freed_at is None


def test_a_plan_that_happened_while_nobody_looked_is_the_links(lab_store: Store) -> None:
    follow_queue(lab_store, runs() + stands("afterany:11(unfulfilled)"))
    eligible = NOW + 2000
    started = out(eligible, State="RUNNING", StartTime=str(eligible + 60), EndTime=str(END + HOUR))
    follow_queue(lab_store, runs() + started, eligible + 300)
    assert (find_standby(lab_store).freed_at, find_standby(lab_store).freed_by) == (
        eligible,
        Planner.LINK,
    )


def test_a_dependency_that_was_cleared_by_hand_in_sight_is_no_release(lab_store: Store) -> None:
    follow_queue(lab_store, runs() + stands("afterany:11(unfulfilled)"))
    follow_queue(lab_store, runs() + out(NOW + 30), NOW + 60)
    assert find_standby(lab_store).freed_at is None


def test_accounting_tells_of_a_hand_over_that_was_planned_and_is_over(lab_store: Store) -> None:
    sync(
        lab_store,
        ended_record(1, JobState.TIMEOUT, START, END, submit=START - 60),
        ended_record(2, JobState.COMPLETED, END + 60, END + 900, submit=START, eligible=END - 1200),
        now=END + 1000,
        accounting=True,
    )
    assert (find_standby(lab_store).freed_at, find_standby(lab_store).freed_by) == (
        END - 1200,
        Planner.LINK,
    )


@pytest.mark.parametrize(
    ("state", "end", "eligible"),
    [
        (JobState.TIMEOUT, END, END),  # reactive
        (JobState.TIMEOUT, END, START - 10),  # its predecessor's run before
        (JobState.UNKNOWN, END, END - 600),  # nobody knows when that ended
        (JobState.TIMEOUT, END, START),  # submitted without a dependency
    ],
)
def test_accounting_tells_of_none(
    lab_store: Store, state: JobState, end: int, eligible: int
) -> None:
    submit = min(eligible, START)
    told = {"submit": submit, "eligible": eligible}
    sync(
        lab_store,
        ended_record(1, state, START, end, submit=START - 60),
        ended_record(2, JobState.COMPLETED, end + 60, end + 90, **told),
        now=end + 1000,
        accounting=True,
    )
    assert find_standby(lab_store).freed_at is None
