"""Pending reasons: which of them no forecast cures, and what a user is told of those."""

import pytest

from mirage.slurm.text.pending_reasons import (
    KNOWN_HINDRANCES,
    Cure,
    Hindrance,
    find_hindrance,
    find_hindrance_by_word,
    trim_reason,
)

TRES = ("BB", "Billing", "Cpu", "Energy", "GRES", "License", "Memory", "Node", "Unknown")
OF_ALL = (*TRES, "Jobs", "SubmitJobs")
WHOSE = ("Account", "User")
OWNERS = ("Assoc", "QOS")


@pytest.mark.parametrize(
    "reason",
    [
        *("", "None", "Priority", "Resources", "Dependency", "BeginTime", "Licenses", "Cleaning"),
        "ReqNodeNotAvail, May be reserved for other job",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
        "SomethingThatSlurmHasNotYet",
        *("Prolog", "SchedDefer", "JobArrayTaskLimit", "FedJobLock", "BurstBufferResources"),
        *("BurstBufferStageIn", "PowerNotAvail", "PowerReserved", "MaxPoweredUpNodes"),
        *("MpiPortsBusy", "NvidiaImexChannels", "Constraints"),
        "Required nodes lack available resources",
        "Required nodes do not fit topology",
    ],
)
def test_ordinary_waits_are_the_queues(reason: str) -> None:
    assert find_hindrance(reason) is None


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
        ("AccountingPolicy", "AccountingPolicy", Cure.JOBS),
        ("MaxMemPerLimit", "MaxMemPerLimit", Cure.PERSON),
        ("ReservationDeleted", "ReservationDeleted", Cure.PERSON),
        ("ReservationInvalid", "ReservationInvalid", Cure.PERSON),
        ("JobHoldMaxRequeue", "JobHoldMaxRequeue", Cure.PERSON),
        ("user_env_retrieval_failed_requeued_held", "JobLaunchFailure", Cure.PERSON),
        (
            "(Job's_account_not_permitted_to_use_this_partition_(gpu_allows_a_not_b))",
            "AccountNotAllowed",
            Cure.PERSON,
        ),
        (
            "Job's QOS not permitted to use this partition (gpu denies a,b including a)",
            "QOSNotAllowed",
            Cure.PERSON,
        ),
        (
            "uid 1003 not in group permitted to use this partition (gpu). groups allowed: a,b",
            "AccountNotAllowed",
            Cure.PERSON,
        ),
        ("Reservation weekly was deleted", "ReservationDeleted", Cure.PERSON),
        ("Reservation_weekly_is_invalid", "ReservationInvalid", Cure.PERSON),
        *((f"Max{what}PerAccount", f"Max{what}PerAccount", Cure.JOBS) for what in OF_ALL),
        *((f"Max{what}RunMinsPer{whose}", None, Cure.JOBS) for what in TRES for whose in WHOSE),
        *((f"QOSMin{what}", None, Cure.PERSON) for what in (*TRES, "CpuNotSatisfied")),
        *((f"QOSMax{what}PerUser", None, Cure.JOBS) for what in OF_ALL),
        *((f"QOSMax{what}MinutesPerJob", None, Cure.PERSON) for what in TRES),
        *((f"{owner}Max{what}PerNode", None, Cure.PERSON) for owner in OWNERS for what in TRES),
        *((f"{owner}Grp{what}", None, Cure.JOBS) for owner in OWNERS for what in TRES),
        *((f"{owner}Grp{what}Minutes", None, Cure.PERSON) for owner in OWNERS for what in TRES),
        *((f"{owner}Grp{what}RunMinutes", None, Cure.JOBS) for owner in OWNERS for what in TRES),
    ],
)
def test_waits_that_no_forecast_cures_are_named(reason: str, word: str | None, cure: Cure) -> None:
    found = find_hindrance(reason)
    assert found is not None
    assert (found.word, found.cure) == (word or reason, cure)
    assert find_hindrance_by_word(found.word) == found, "what is stored finds it again"


@pytest.mark.parametrize("found", KNOWN_HINDRANCES, ids=lambda found: found.word)
def test_each_says_what_it_is_and_what_to_do(found: Hindrance) -> None:
    assert not found.says.endswith("."), "half a sentence, to be put into one"
    assert found.advice.endswith(".")


def test_unavailable_nodes_are_told_in_words_that_hold_without_a_list_of_ones_own() -> None:
    """Slurm names them too where the job asks for no node."""
    found = find_hindrance("ReqNodeNotAvail, UnavailableNodes:n[1-3]")
    assert found is not None
    assert found.says.startswith("nodes that it could run on, or that it asks for by name, are")
    assert "One that asks for nodes by name can" in found.advice


def test_lists_of_nodes_are_not_kept() -> None:
    assert trim_reason("ReqNodeNotAvail, UnavailableNodes:gpu[03-08]") == "ReqNodeNotAvail"
