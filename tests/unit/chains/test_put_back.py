"""Predecessors that Slurm put back into the queue and holds: their chain waits, and says so."""

import pytest

from mirage.chains.explanations import describe_chain
from mirage.chains.link_risks import get_advice
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, LinkState
from mirage.domain.chain_cause import Risk
from mirage.web.decision_text import describe_position
from tests.support.provision.printed import follow_queue, print_row
from tests.support.provision.slurm_jobs import CHAIN, NOW, chain, links


def second(state: str, reason: str, submit: int) -> str:
    return print_row(
        JobID="12",
        State=state,
        Reason=reason,
        SubmitTime=str(submit),
        StartTime="N/A" if state != "RUNNING" else str(NOW - 300),
        EndTime="N/A" if state != "RUNNING" else str(NOW + 3300),
        NodeList="gpu01" if state == "RUNNING" else "",
        Comment=f"mirage:{CHAIN}:2",
    )


THIRD = print_row(
    JobID="13",
    Reason="Dependency",
    StartTime="N/A",
    EndTime="N/A",
    Dependency="afterany:12(unfulfilled)",
    Comment=f"mirage:{CHAIN}:3",
)


@pytest.mark.parametrize(
    ("reason", "word"),
    [("job_requeued_in_held_state", "RequeueHeld"), ("job requeued in held state", "RequeueHeld")],
)
def test_a_predecessor_that_an_expedited_requeue_left_held_is_told(
    lab_store: Store, reason: str, word: str
) -> None:
    follow_queue(lab_store, second("RUNNING", "None", NOW - 600) + THIRD)
    follow_queue(lab_store, second("EXPEDITING", "None", NOW + 30) + THIRD, NOW + 60)
    assert links(lab_store)[2].state is LinkState.PENDING
    for later in (120, 180):
        follow_queue(lab_store, second("REQUEUE_HOLD", reason, NOW + 30) + THIRD, NOW + later)
    found = chain(lab_store)
    assert found.state is ChainState.ACTIVE
    assert found.at_risk is not None
    assert (found.at_risk.of, found.at_risk.word, found.at_risk.job_id) == (
        Risk.HINDERED,
        word,
        12,
    )
    assert "link 2 (job 12) waits: it was requeued and is held" in describe_chain(found)
    assert "scontrol release" in get_advice(word)


def test_a_link_that_slurm_launched_twice_and_holds_is_told(lab_store: Store) -> None:
    """slurmctld died before it had saved the job's start, launched the job again, and the node
    refused: Slurm takes the start back, and holds the job."""
    follow_queue(lab_store, second("RUNNING", "None", NOW - 600) + THIRD)
    for later in (60, 120):
        held = second("PENDING", "launch failed requeued held", NOW + 30)
        follow_queue(lab_store, held + THIRD, NOW + later)
    risk = chain(lab_store).at_risk
    assert risk is not None
    assert (risk.of, risk.word, risk.job_id) == (Risk.HINDERED, "JobLaunchFailure", 12)
    assert "scontrol release JOB" in get_advice(risk.word)
    assert describe_position(links(lab_store)[2]) == "is held in Slurm (JobLaunchFailure)"
