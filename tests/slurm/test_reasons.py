"""Pending reasons: which of them no forecast cures, and what a user is told of those."""

import pytest

from mirage.slurm.reasons import HINDRANCES, Cure, Hindrance, hindrance, named, short


@pytest.mark.parametrize(
    "reason",
    [
        *("", "None", "Priority", "Resources", "Dependency", "BeginTime", "Licenses", "Cleaning"),
        "ReqNodeNotAvail, May be reserved for other job",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
        "SomethingThatSlurmHasNotYet",
    ],
)
def test_ordinary_waits_are_the_queues(reason: str) -> None:
    assert hindrance(reason) is None


@pytest.mark.parametrize(
    ("reason", "word", "cure"),
    [
        ("JobHeldAdmin", "JobHeldAdmin", Cure.PERSON),
        ("(JobHeldUser)", "JobHeldUser", Cure.PERSON),
        ("DependencyNeverSatisfied", "DependencyNeverSatisfied", Cure.PERSON),
        ("ReqNodeNotAvail, UnavailableNodes:gpu[03-08]", "ReqNodeNotAvail", Cure.PERSON),
        ("ReqNodeNotAvail,_UnavailableNodes:gpu03", "ReqNodeNotAvail", Cure.PERSON),
        ("ReqNodeNotAvail, Reserved for maintenance", "Maintenance", Cure.DATE),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", "Maintenance", Cure.DATE),
        ("PartitionDown", "PartitionDown", Cure.PERSON),
        ("PartitionInactive", "PartitionInactive", Cure.PERSON),
        ("BadConstraints", "BadConstraints", Cure.PERSON),
        ("launch failed requeued held", "JobLaunchFailure", Cure.PERSON),
        ("job_requeued_in_held_state", "RequeueHeld", Cure.PERSON),
        ("AssocGrpBillingMinutes", "AssocGrpBillingMinutes", Cure.PERSON),
        ("QOSGrpCPUMinutesLimit", "QOSGrpCPUMinutesLimit", Cure.PERSON),
        ("AssocGrpCPURunMinutesLimit", "AssocGrpCPURunMinutesLimit", Cure.JOBS),
        ("QOSMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit", Cure.PERSON),
        ("QOSMaxJobsPerUserLimit", "QOSMaxJobsPerUserLimit", Cure.JOBS),
        ("AssocMaxJobsLimit", "AssocMaxJobsLimit", Cure.JOBS),
        ("AssociationJobLimit", "AssociationJobLimit", Cure.JOBS),
        ("QOSGrpNodeLimit", "QOSGrpNodeLimit", Cure.JOBS),
    ],
)
def test_waits_that_no_forecast_cures_are_named(reason: str, word: str, cure: Cure) -> None:
    found = hindrance(reason)
    assert found is not None
    assert (found.word, found.cure) == (word, cure)
    assert named(word) == found, "what is stored finds it again"


@pytest.mark.parametrize("found", HINDRANCES, ids=lambda found: found.word)
def test_each_says_what_it_is_and_what_to_do(found: Hindrance) -> None:
    assert not found.says.endswith("."), "half a sentence, to be put into one"
    assert found.advice.endswith(".")


def test_lists_of_nodes_are_not_kept() -> None:
    assert short("ReqNodeNotAvail, UnavailableNodes:gpu[03-08]") == "ReqNodeNotAvail"
