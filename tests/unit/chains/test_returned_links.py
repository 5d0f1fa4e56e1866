"""A link gives its nodes back beside its running predecessor, as squeue and sacct print it."""

from typing import Any

import pytest

from mirage.chains import link_sync
from mirage.chains.standby_position import GRACE_S
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, Link, LinkState, Planner, Position, Style
from mirage.domain.job import JobId, JobState
from tests.support.provision.printed import follow_queue, print_row
from tests.support.provision.slurm_jobs import (
    CHAIN,
    HOUR,
    NOW,
    advance_chain,
    chain,
    ended_record,
    events,
    links,
    record,
    register,
    sync,
)

BEGAN = NOW - 2 * HOUR
LIMIT = 8 * HOUR
END = BEGAN + LIMIT
EARLY = NOW
"""When the second link starts, five hours too early."""
HELD_S = 7
LEFT = EARLY + HELD_S
PLAN_MIN = 330
DUE = BEGAN + 60 * PLAN_MIN
PLANNED = f"afterany:11?after:11+{PLAN_MIN}"
PLAN = f"afterany:11(unfulfilled)?after:11+{PLAN_MIN}(unfulfilled)"


def mark(index: int, settings: str = "style=sequential,max-overlap=4:00:00") -> str:
    return f"mirage:{settings} mirage:{CHAIN}:{index}"


def predecessor(**cells: str) -> str:
    shown = {"State": "RUNNING", "Reason": "None", "NodeList": "g1", "TimeLimit": "8:00:00"}
    shown |= {"StartTime": str(BEGAN), "EndTime": str(END), "Comment": mark(1)}
    return print_row(**shown | cells)


def early(state: str = "COMPLETED", **cells: str) -> str:
    """The job that starts too early; it has nodes for a few seconds."""
    shown = {"JobID": "12", "State": state, "Reason": "None", "NodeList": "g2"}
    shown |= {"SubmitTime": str(BEGAN), "EligibleTime": str(EARLY - 600), "TimeLimit": "8:00:00"}
    shown |= {"StartTime": str(EARLY), "Comment": mark(2)}
    shown |= {"EndTime": str(LEFT if state == "COMPLETED" else EARLY + LIMIT)}
    return print_row(**shown | cells)


def again(dependency: str = PLAN, *, job_id: int = 21, **cells: str) -> str:
    """The job that the early one puts in its place."""
    shown = {"JobID": str(job_id), "Dependency": dependency, "Reason": "Dependency"}
    shown |= {"EligibleTime": "N/A", "StartTime": "N/A", "EndTime": "N/A", "TimeLimit": "8:00:00"}
    return print_row(**shown | {"SubmitTime": str(EARLY + 3), "Comment": mark(2)} | cells)


def find_standby(store: Store) -> Link:
    return links(store)[2]


@pytest.fixture
def sequential_store(lab_store: Store) -> Store:
    register(lab_store, style=Style.SEQUENTIAL, now=BEGAN)
    return lab_store


def get_returns(link: Link) -> tuple[int, int, int | None, int | None]:
    return link.returns, link.returned_s, link.returned_at, link.returned_left_s


def test_a_link_that_gave_its_nodes_back_is_followed_as_its_new_job(
    sequential_store: Store,
) -> None:
    follow_queue(sequential_store, predecessor() + early("RUNNING"), EARLY + 1)
    follow_queue(sequential_store, predecessor() + early("RUNNING") + again(), EARLY + 4)
    assert find_standby(sequential_store).job_id == 12, "the early job still runs"
    for now in (NOW + 60, NOW + 120):
        follow_queue(sequential_store, predecessor() + early() + again(), now)
        link = find_standby(sequential_store)
        assert (link.job_id, link.state, link.position) == (21, LinkState.PENDING, Position.HELD)
        assert (link.plan_min, link.planned_release) == (PLAN_MIN, DUE)
        assert (link.planned_by, link.hindered) == (Planner.LINK, "")
        assert get_returns(link) == (1, HELD_S, LEFT, END - LEFT)
        assert link.returned_wait_s == 600
        assert chain(sequential_store).state is ChainState.ACTIVE
        assert chain(sequential_store).at_risk is None
    found = events(sequential_store)
    assert found.count("gave back") == 1
    assert not {"replaced", "begins anew", "at risk"} & set(found)


def test_a_job_that_came_and_went_between_two_looks_gave_its_nodes_back(
    sequential_store: Store,
) -> None:
    waits = again("(null)", job_id=12, Reason="Priority", SubmitTime=str(BEGAN))
    follow_queue(sequential_store, predecessor() + waits, EARLY - 30)
    follow_queue(sequential_store, predecessor() + early() + again(), EARLY + 30)
    assert get_returns(find_standby(sequential_store)) == (1, HELD_S, LEFT, END - LEFT)


@pytest.mark.parametrize("settings", ["lead=4:00:00", "planned-by=service"])
def test_the_plan_of_a_link_that_gave_its_nodes_back_is_its_own_whatever_its_comment_says(
    sequential_store: Store, settings: str
) -> None:
    follow_queue(sequential_store, predecessor() + early(), EARLY + 30)
    for now in (NOW + 60, NOW + 120):
        shown = again(Comment=mark(2, settings))
        follow_queue(sequential_store, predecessor() + early() + shown, now)
        assert find_standby(sequential_store).planned_by is Planner.LINK


def test_a_link_may_give_its_nodes_back_several_times(sequential_store: Store) -> None:
    follow_queue(sequential_store, predecessor() + early() + again(), NOW + 60)
    start, end = DUE + 600, DUE + 609
    left: dict[str, Any] = {
        "StartTime": str(start),
        "EndTime": str(end),
        "EligibleTime": str(DUE + 5),
    }
    gone = again("(null)", State="COMPLETED", Reason="None", NodeList="g3", **left)
    later = f"afterany:11(unfulfilled)?after:11+{PLAN_MIN + 60}(unfulfilled)"
    third = again(later, job_id=22, SubmitTime=str(start + 4))
    follow_queue(sequential_store, predecessor() + gone + third, end + 30)
    link = find_standby(sequential_store)
    assert (link.job_id, link.planned_release) == (22, DUE + HOUR)
    assert get_returns(link) == (2, HELD_S + 9, end, END - end)
    assert events(sequential_store).count("gave back") == 2
    assert chain(sequential_store).state is ChainState.ACTIVE


def test_a_link_that_was_sent_back_gave_nothing_back(sequential_store: Store) -> None:
    follow_queue(sequential_store, predecessor() + early(), EARLY + 30)
    behind = again("afterany:11(unfulfilled)")
    follow_queue(sequential_store, predecessor() + early() + behind, NOW + 60)
    link = find_standby(sequential_store)
    assert (link.job_id, link.hindered) == (21, "SentBack")
    assert get_returns(link) == (0, 0, None, None)
    assert events(sequential_store)[-1] == "begins anew"
    out = again("(null)", EligibleTime=str(DUE), Reason="Priority")
    follow_queue(sequential_store, predecessor() + out, DUE + 300)
    assert find_standby(sequential_store).freed_by is Planner.LINK, "somebody released it unseen"
    _, left, _ = records_of_return()
    sync(sequential_store, left, now=DUE + 360, accounting=True)
    assert find_standby(sequential_store).returns == 0


def test_a_plan_after_another_job_is_no_return(sequential_store: Store) -> None:
    follow_queue(sequential_store, predecessor() + early(), EARLY + 30)
    strange = again(f"afterany:7(unfulfilled)?after:7+{PLAN_MIN}(unfulfilled)")
    follow_queue(sequential_store, predecessor() + early() + strange, NOW + 60)
    assert find_standby(sequential_store).returns == 0


def test_a_link_whose_job_failed_gave_nothing_back(sequential_store: Store) -> None:
    follow_queue(sequential_store, predecessor() + early("FAILED", EndTime=str(LEFT)), EARLY + 30)
    follow_queue(
        sequential_store, predecessor() + early("FAILED", EndTime=str(LEFT)) + again(), NOW + 60
    )
    assert find_standby(sequential_store).returns == 0


def test_a_job_that_slurm_forgot_gave_its_nodes_back_until_its_new_job_was_submitted(
    sequential_store: Store,
) -> None:
    """slurmctld forgot the early job, and there is no accounting."""
    follow_queue(sequential_store, predecessor() + early("RUNNING"), EARLY + 1)
    later = EARLY + 400
    follow_queue(sequential_store, predecessor() + again(), later)
    assert find_standby(sequential_store).job_id == 12
    with sequential_store.begin() as tx:
        link_sync.close_forgotten(tx, 1, {JobId(12)}, later)
    follow_queue(sequential_store, predecessor() + again(), later + 60)
    link = find_standby(sequential_store)
    assert (link.job_id, link.planned_by) == (21, Planner.LINK)
    assert get_returns(link)[:3] == (1, 3, EARLY + 3)


def test_a_return_is_seen_although_slurm_has_carried_its_plan_out_before_the_next_look(
    sequential_store: Store,
) -> None:
    """For hours only accounting answered."""
    follow_queue(sequential_store, predecessor() + early("RUNNING"), EARLY + 1)
    _, left, _ = records_of_return()
    sync(sequential_store, left, now=NOW + 60, accounting=True)
    out = again("(null)", EligibleTime=str(DUE + 20), Reason="Priority")
    follow_queue(sequential_store, predecessor() + out, DUE + 60)
    link = find_standby(sequential_store)
    assert (link.freed_at, link.freed_by, link.hindered) == (DUE + 20, Planner.LINK, "")
    assert get_returns(link) == (1, HELD_S, LEFT, END - LEFT)


def records_of_return(state: JobState = JobState.PENDING, **more: Any) -> tuple[Any, Any, Any]:
    submit_line = f"sbatch --parsable --dependency={PLANNED} job.sh"
    times = {"time_limit_s": LIMIT, "submit": BEGAN}
    return (
        record(1, JobState.RUNNING, start=BEGAN, **times),
        ended_record(2, JobState.COMPLETED, EARLY, LEFT, **times, eligible=EARLY - 600),
        record(
            2,
            state,
            **{"job_id": JobId(21), "submit": EARLY + 3, "submit_line": submit_line, **more},
        ),
    )


def test_the_record_of_a_job_that_no_look_showed_tells_of_its_return_once(
    sequential_store: Store,
) -> None:
    """Where slurmctld forgets jobs within seconds (MinJobAge), the early job is in no queue."""
    waits = again("(null)", job_id=12, Reason="Priority", SubmitTime=str(BEGAN))
    follow_queue(sequential_store, predecessor() + waits, EARLY - 30)
    follow_queue(sequential_store, predecessor() + again(), EARLY + 30)
    assert find_standby(sequential_store).returns == 0
    for now in (NOW + 60, NOW + 120):
        sync(sequential_store, *records_of_return(), now=now, accounting=True)
        assert get_returns(find_standby(sequential_store)) == (1, HELD_S, LEFT, END - LEFT)
        assert find_standby(sequential_store).returned_wait_s == 600
        assert find_standby(sequential_store).replaced_at is None
        follow_queue(sequential_store, predecessor() + again(), now + 1)
    assert events(sequential_store).count("gave back") == 1


@pytest.mark.parametrize(
    ("over_at", "held_s", "quoted"),
    [
        (END, HELD_S, "--dependency={}"),
        (EARLY + 4, 4, "--dependency={}"),
        (END, HELD_S, "'--dependency={}'"),
        (END, HELD_S, '--dependency="{}"'),
    ],
)
def test_accounting_alone_tells_of_a_return_and_of_the_run_after_it(
    sequential_store: Store, over_at: int, held_s: int, quoted: str
) -> None:
    """The service was away from before the return until after the chain's second link."""
    first, left, waiting = records_of_return()
    start, end = over_at + 60, over_at + HOUR
    over = ended_record(1, JobState.TIMEOUT, BEGAN, over_at, time_limit_s=LIMIT, submit=BEGAN)
    ran = ended_record(
        2,
        JobState.COMPLETED,
        start,
        end,
        job_id=waiting.job_id,
        submit=waiting.submit,
        submit_line=f"sbatch {quoted.format(PLANNED)} job.sh",
        eligible=over_at,
    )
    sync(sequential_store, first, now=EARLY - 60, accounting=True)
    sync(sequential_store, over, left, ran, now=end + 60, accounting=True)
    link = find_standby(sequential_store)
    assert (link.job_id, link.start) == (21, start)
    assert (link.returns, link.returned_s) == (1, held_s)


def test_nodes_count_as_given_back_until_the_predecessors_end_alone(
    sequential_store: Store,
) -> None:
    """The predecessor ends in the seconds in which the link gives its nodes back."""
    over = predecessor(State="COMPLETED", EndTime=str(EARLY + 4))
    ran: dict[str, Any] = {
        "EligibleTime": str(EARLY + 4),
        "StartTime": str(EARLY + 40),
        "EndTime": str(NOW + LIMIT),
    }
    began = again("(null)", State="RUNNING", Reason="None", NodeList="g2", **ran)
    follow_queue(sequential_store, predecessor() + early("RUNNING") + again(), EARLY + 3)
    follow_queue(sequential_store, over + early() + again(), EARLY + 20)
    follow_queue(sequential_store, over + began, EARLY + 60)
    link = find_standby(sequential_store)
    assert (link.job_id, link.returns, link.returned_s) == (21, 1, 4)


def test_a_chain_whose_links_give_their_nodes_back_is_not_paused(sequential_store: Store) -> None:
    """Five brief jobs in a row would be a loop, and three failures in a row too."""
    jobs = [early() + again()]
    follow_queue(sequential_store, predecessor() + jobs[0], NOW + 60)
    for turn in range(1, 6):
        start = DUE + 900 * turn
        left = {"StartTime": str(start), "EndTime": str(start + 5), "EligibleTime": str(start - 60)}
        submit = {} if turn == 1 else {"SubmitTime": str(start - 896)}
        gone = again("(null)", job_id=20 + turn, State="COMPLETED", NodeList="g2", **left, **submit)
        later = f"afterany:11(unfulfilled)?after:11+{PLAN_MIN + 15 * turn}(unfulfilled)"
        new = again(later, job_id=21 + turn, SubmitTime=str(start + 4))
        follow_queue(sequential_store, predecessor(EndTime=str(END)) + gone + new, start + 30)
        assert find_standby(sequential_store).returns == turn + 1
        assert chain(sequential_store).state is ChainState.ACTIVE
        assert chain(sequential_store).at_risk is None


def test_a_link_that_has_just_left_for_another_job_leaves_its_chain_with_a_standby(
    sequential_store: Store,
) -> None:
    """Accounting tells of the early job's end before a look shows its new job."""
    follow_queue(sequential_store, predecessor() + early("RUNNING"), EARLY + 5)
    _, left, _ = records_of_return()
    sync(sequential_store, left, now=EARLY + 30, accounting=True)
    assert advance_chain(sequential_store, now=EARLY + 30).at_risk is None
    late = EARLY + HELD_S + GRACE_S + 60
    found = advance_chain(sequential_store, now=late).at_risk
    assert found is not None, "no other job has come"
    assert found.word == "NoStandby"


def leave_on_turn(start: int) -> Any:
    """The record of a new job that finds the early one at work, and leaves."""
    times: dict[str, Any] = {"start": start, "end": start + 2, "eligible": start - 9}
    return records_of_return(JobState.COMPLETED, **times)[2]


def test_a_job_that_did_not_see_its_new_job_keeps_its_nodes_and_stays_the_link(
    sequential_store: Store,
) -> None:
    """Slurm said nothing of the new job, so the early one waited on and ran; the new one left."""
    follow_queue(sequential_store, predecessor() + early("RUNNING") + again(), EARLY + 60)
    over = predecessor(State="TIMEOUT")
    follow_queue(sequential_store, over + early("RUNNING") + again("(null)"), END + 60)
    turn: dict[str, Any] = {"StartTime": str(END + 90), "EndTime": str(END + 92)}
    turn |= {"State": "COMPLETED", "Reason": "None", "NodeList": "g3", "EligibleTime": str(END)}
    follow_queue(sequential_store, over + early("RUNNING") + again("(null)", **turn), END + 120)
    assert find_standby(sequential_store).job_id == 12
    done = END + 2 * HOUR
    (*_, waiting), left = records_of_return(), leave_on_turn(END + 90)
    ran = ended_record(2, JobState.COMPLETED, EARLY, done, submit=BEGAN, time_limit_s=LIMIT)
    for records in ([ran], [left], [ran, left], [ran, waiting]):
        sync(sequential_store, *records, now=done + 60, accounting=True)
    follow_queue(sequential_store, again(), done + 120)
    link = find_standby(sequential_store)
    assert (link.job_id, link.state, link.returns) == (12, LinkState.ENDED, 0)


def test_a_job_that_leaves_since_its_link_runs_already_is_no_return(
    sequential_store: Store,
) -> None:
    """The early job ran for some minutes only, after its predecessor had ended at once."""
    follow_queue(sequential_store, predecessor() + early("RUNNING") + again(), EARLY + 10)
    over = predecessor(State="COMPLETED", EndTime=str(EARLY + 30))
    follow_queue(sequential_store, over + early(EndTime=str(EARLY + 400)), EARLY + 420)
    left = leave_on_turn(EARLY + 60)
    sync(sequential_store, left, now=EARLY + 480, accounting=True)
    link = find_standby(sequential_store)
    assert (link.job_id, link.end, link.returns) == (12, EARLY + 400, 0)
