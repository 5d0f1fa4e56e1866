"""Limits on how many waiting jobs earn age."""

from typing import Any

import pytest

from mirage.domain.job import Job
from mirage.domain.snapshot import Queue
from mirage.errors import MalformedText
from mirage.provision.handover_decider import describe_accrual_limit
from mirage.slurm.commands.accrual_limits import NO_LIMITS, AccrueLimits, parse_accrue_limits
from tests.support.provision.slurm_jobs import job

QOS = "normal|||\nlong|2||\nbig|||5\nshared||3|\n"
ASSOCIATIONS = (
    "root||||\nlab||root||9\nresearch||lab|4|\nresearch|alice||1|\nresearch|bob|||\nother||root||\n"
)


def found(limits: AccrueLimits, **of: str) -> set[tuple[str, int, str]]:
    asked = {"qos": "normal", "account": "other", "user": "carol"} | of
    return {(li.word, li.most, li.qos or li.account) for li in limits.iter_applicable(**asked)}


def test_the_limits_of_a_job_are_those_of_its_qos_user_and_accounts() -> None:
    limits = parse_accrue_limits(QOS, ASSOCIATIONS)
    assert found(limits) == set()
    assert found(limits, qos="long") == {("MaxJobsAccruePU", 2, "long")}
    assert found(limits, qos="big") == {("GrpJobsAccrue", 5, "big")}
    assert found(limits, qos="shared") == {("MaxJobsAccruePA", 3, "shared")}
    above = ("GrpJobsAccrue", 9, "lab")
    alice = found(limits, account="research", user="alice")
    assert alice == {("MaxJobsAccrue", 1, "research"), above}
    bob = found(limits, account="research", user="bob")
    assert bob == {("MaxJobsAccrue", 4, "research"), above}, "the account's, who has none"


@pytest.mark.parametrize("rows", ["a|b", "long|7||\n", "x|y|1||\n", "long|many||\n"])
def test_what_looks_like_another_row_is_no_limit(rows: str) -> None:
    answer = QOS + rows if rows.endswith("\n") else QOS + rows + "\n"
    limits = parse_accrue_limits(answer, "")
    assert found(limits, qos="big") == {("GrpJobsAccrue", 5, "big")}
    assert ("MaxJobsAccruePU", 7, "long") not in found(limits, qos="long")


def test_half_an_answer_is_none() -> None:
    with pytest.raises(MalformedText):
        parse_accrue_limits(QOS.rstrip("\n"), ASSOCIATIONS)


def test_accounts_that_name_each_other_as_parents_end() -> None:
    limits = parse_accrue_limits("", "a||b||1\nb||a||2\n")
    assert found(limits, account="a") == {("GrpJobsAccrue", 1, "a"), ("GrpJobsAccrue", 2, "b")}


def waiting(job_id: int, reason: str, **more: Any) -> Job:
    return job(job_id, reason=reason, **({"qos": "long", "user": "alice", "account": "a"} | more))


@pytest.mark.parametrize(
    ("others", "earns_none"),
    [
        ([], False),
        (["Priority"], False),
        (["Priority", "Resources"], True),
        (["Priority", "Dependency"], False),
        (["Dependency", "JobHeldUser", "BeginTime"], False),
    ],
)
def test_a_standby_beyond_the_limit_earns_no_age(others: list[str], *, earns_none: bool) -> None:
    standby = waiting(1, "Dependency")
    rows = [standby, *(waiting(2 + i, reason) for i, reason in enumerate(others))]
    rows += [waiting(50 + i, "Priority", user="bob") for i in range(9)]
    said = describe_accrual_limit(parse_accrue_limits(QOS, ""), standby, Queue.from_jobs(0, rows))
    assert said.startswith(
        "at most 2 waiting jobs of a user in QOS long earn age (MaxJobsAccruePU)"
    )
    assert ("the standby earns no age" in said) is earns_none


def test_without_a_limit_nothing_is_said() -> None:
    standby = waiting(1, "Dependency", qos="normal")
    assert describe_accrual_limit(NO_LIMITS, standby, Queue.from_jobs(0, [standby])) == ""
    assert (
        describe_accrual_limit(parse_accrue_limits(QOS, ""), standby, Queue.from_jobs(0, [standby]))
        == ""
    )


@pytest.mark.parametrize(("account", "counts"), [("lab", 1), ("research", 1), ("other", 0)])
def test_an_accounts_jobs_are_those_below_it_too(account: str, counts: int) -> None:
    limits = parse_accrue_limits("", ASSOCIATIONS.replace("lab||root||9", "lab||root||1"))
    standby = waiting(1, "Dependency", account="research", user="bob")
    other = waiting(2, "Priority", account=account, user="carol")
    said = describe_accrual_limit(limits, standby, Queue.from_jobs(0, [standby, other]))
    assert ("the standby earns no age" in said) is bool(counts)
