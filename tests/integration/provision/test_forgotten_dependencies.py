"""A move repeats no dependency of the user's own that was met by a job that Slurm has forgotten."""

import pytest

from mirage.database.chains import decisions
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobState
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import ALICE, CHAIN, NOW, WrittenCluster, job, running
from tests.support.slurm.printed_jobs import read_queue_job, read_record

OWN = "afterany:11(unfulfilled)"


def ran(state: JobState, *, start: int | None = NOW - 3600, submit: int = NOW - 4000) -> Job:
    """Job 7, as accounting has it."""
    end = None if not state.has_ended else NOW - 1800
    return read_record(job_id=7, state=state, submit=submit, uid=ALICE, start=start, end=end)


def freed(
    store: Store,
    dependency: str,
    *records: Job,
    silent: bool = False,
    shown: tuple[Job, ...] = (),
    says: str = "",
) -> tuple[list[str], str]:
    """The dependency that Slurm is told, if it is, and what went wrong; `says`: its refusal."""
    cluster = WrittenCluster(running(1), job(2, dependency=dependency), *shown)
    cluster.records = list(records)
    if silent:
        cluster.errors["jobs"] = ClusterUnavailable("no answer")
    if says:
        cluster.errors["free"] = ClusterRefused(says)
    Worker(
        store, cluster, 1, settings=DecisionSettings(get_policy=Always, default_policy="always")
    ).run_tick()
    with store.read() as tx:
        row = decisions.find_last_decision(tx, 1, CHAIN, 2)
    told = [told for name, job_id, told in cluster.moves if (name, job_id) == ("free", 12)]
    return told, "" if row is None else row.error


@pytest.mark.parametrize(
    ("own", "record", "told"),
    [
        ("afterok:7", ran(JobState.COMPLETED), ""),
        ("afterok:7(unfulfilled)", ran(JobState.COMPLETED), ""),
        ("afternotok:7(unfulfilled)", ran(JobState.FAILED), ""),
        ("afternotok:7(unfulfilled)", ran(JobState.TIMEOUT), ""),
        ("afterany:7(unfulfilled)", ran(JobState.FAILED), ""),
        ("afterany:7(unfulfilled)", ran(JobState.CANCELLED, start=None), ""),
        ("after:7+10(unfulfilled)", ran(JobState.COMPLETED), ""),
        ("after:7(unfulfilled)", ran(JobState.COMPLETED), ""),
        ("afterok:7,afterany:7,afterok:7_1", ran(JobState.COMPLETED), "afterok:7_1"),
        # Nobody can tell: Slurm is to judge.
        ("after:7+90(unfulfilled)", ran(JobState.COMPLETED), "after:7+90"),
        ("afterok:7(unfulfilled)", ran(JobState.RUNNING), "afterok:7"),
        ("afterok:7_*(unfulfilled)", ran(JobState.COMPLETED), "afterok:7_*"),
        ("aftercorr:7(unfulfilled)", ran(JobState.COMPLETED), "aftercorr:7"),
    ],
)
def test_a_term_that_was_met_is_left_out(
    acting_chain_store: Store, own: str, record: Job, told: str
) -> None:
    assert freed(acting_chain_store, f"{OWN},{own}", record) == ([told], "")


def test_the_last_run_counts(acting_chain_store: Store) -> None:
    runs = ran(JobState.COMPLETED, submit=NOW - 3000), ran(JobState.FAILED, submit=NOW - 9000)
    assert freed(acting_chain_store, f"{OWN},afterok:7(unfulfilled)", *runs) == ([""], "")


@pytest.mark.parametrize(
    ("own", "state"),
    [("afterok:7(unfulfilled)", "FAILED"), ("afternotok:7(failed)", "COMPLETED")],
)
def test_one_that_was_not_met_is_never_taken_for_met(
    acting_chain_store: Store, own: str, state: str
) -> None:
    told, error = freed(acting_chain_store, f"{OWN},{own}", ran(JobState(state)))
    assert told == []
    assert f"was not met (job 7 is {state})" in error


def test_what_slurm_still_shows_is_slurms_to_judge(acting_chain_store: Store) -> None:
    own = f"{OWN},afterok:7(unfulfilled)"
    waits = read_queue_job(job_id=7, submit=NOW - 4000, uid=ALICE)
    assert freed(acting_chain_store, own, ran(JobState.COMPLETED), shown=(waits,)) == (
        ["afterok:7"],
        "",
    )


@pytest.mark.parametrize("silent", [True, False])
def test_without_a_record_the_term_stays(acting_chain_store: Store, silent: bool) -> None:
    assert freed(acting_chain_store, f"{OWN},afterok:7(unfulfilled)", silent=silent) == (
        ["afterok:7"],
        "",
    )


@pytest.mark.parametrize(
    ("says", "own", "told"),
    [
        ("Job dependency problem", "afterok:7", "Slurm does not show 7 of its own dependency"),
        ("Job dependency problem", "afterok:7_1", "Job dependency problem"),
        ("Access/permission denied", "afterok:7", "denied"),
    ],
)
def test_a_refusal_for_a_job_that_nobody_knows_names_it(
    acting_chain_store: Store, says: str, own: str, told: str
) -> None:
    assert freed(acting_chain_store, f"{OWN},{own}", says=says)[1].endswith(told)
