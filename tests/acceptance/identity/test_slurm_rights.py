"""What Slurm itself lets an Operator do, and a coordinator: what docs/admin/security.md says of
both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.identity.site import COORDINATOR, Site

pytestmark = pytest.mark.slurm

OPERATOR = "mirage"


@dataclass(frozen=True)
class Waiting:
    """alice's standby, and the job that it waits for, which nobody starts."""

    site: Site
    first: int
    standby: int

    def told(self, user: str, *argv: str) -> bool:
        """Whether Slurm did as that user said."""
        return self.site.testbed.run(argv, user=user, check=False).returncode == 0

    def shown(self, *fields: str) -> tuple[str, ...]:
        job = self.site.testbed.job(self.standby)
        return tuple(job[field] for field in fields)


@pytest.fixture
def waiting(site: Site) -> Iterator[Waiting]:
    first = site.testbed.sbatch("--hold")
    standby = site.testbed.sbatch("-d", f"afterany:{first}")
    yield Waiting(site, first, standby)
    site.testbed.run(["scancel", str(first), str(standby)])


@pytest.mark.parametrize("user", [OPERATOR, COORDINATOR])
def test_either_may_make_every_move_of_mirages(waiting: Waiting, user: str) -> None:
    job = str(waiting.standby)
    assert waiting.told(user, "scontrol", "uhold", job)
    assert waiting.shown("Reason", "Priority") == ("JobHeldUser", "0")
    assert waiting.told(user, "scontrol", "release", job)
    assert waiting.shown("Priority") != ("0",)
    words = ("scontrol", "update", f"JobId={job}", "Dependency=", "ReqNodeList=gpu01")
    assert waiting.told(user, *words)
    assert waiting.shown("Dependency", "ReqNodeList") == ("(null)", "gpu01")
    assert waiting.told(user, "scancel", job)
    # Without its dependency it may have started, and then it is COMPLETING first.
    waiting.site.testbed.wait_until(
        lambda: waiting.shown("JobState") == ("CANCELLED",), 600, "its end"
    )


@pytest.mark.parametrize(
    ("user", "becomes"), [(OPERATOR, "JobHeldUser"), (COORDINATOR, "JobHeldAdmin")]
)
def test_an_admins_hold_is_safe_from_a_coordinator_alone(
    waiting: Waiting, user: str, becomes: str
) -> None:
    """For an Operator a user's hold takes an admin's place, and a release lifts either."""
    job = str(waiting.standby)
    waiting.site.testbed.run(["scontrol", "hold", job])
    assert waiting.shown("Reason") == ("JobHeldAdmin",)
    assert waiting.told(user, "scontrol", "uhold", job)
    assert waiting.shown("Reason") == (becomes,)
    waiting.site.testbed.run(["scontrol", "hold", job])
    assert waiting.told(user, "scontrol", "release", job) is (user == OPERATOR)
    assert (waiting.shown("Reason") == ("JobHeldAdmin",)) is (user == COORDINATOR)


def test_a_coordinator_has_no_right_beyond_the_account(site: Site) -> None:
    """carol coordinates alice's account; the account mirage is of another one."""
    other = site.testbed.sbatch("--hold", user=OPERATOR)
    try:
        shown = site.testbed.run(["squeue", "-h", "-o", "%i"], user=COORDINATOR).stdout.split()
        assert str(other) not in shown
        done = site.testbed.run(["scancel", str(other)], user=COORDINATOR, check=False)
        assert "Access/permission denied" in done.stderr
        assert site.testbed.state(other) == "PENDING"
    finally:
        site.testbed.run(["scancel", str(other)])


def test_a_coordinator_sees_the_accounts_jobs_though_they_are_private(waiting: Waiting) -> None:
    shown = {
        user: waiting.site.testbed.run(["squeue", "-h", "-o", "%i"], user=user).stdout.split()
        for user in (COORDINATOR, "bob")
    }
    job = str(waiting.standby)
    assert (job in shown[COORDINATOR], job in shown["bob"]) == (True, False)


def test_an_operator_has_more_than_mirage_asks_for(waiting: Waiting) -> None:
    """It reads others' scripts and reserves nodes; Slurm's daemons and roles it cannot touch."""
    words = ["scontrol", "write", "batch_script", str(waiting.first), "-"]
    read = {
        user: "sleep" in waiting.site.testbed.run(words, user=user, check=False).stdout
        for user in (OPERATOR, COORDINATOR, "bob")
    }
    assert read == {OPERATOR: True, COORDINATOR: False, "bob": False}
    reserve = ("ReservationName=taken", "StartTime=now+1day", "Duration=1", "Users=bob")
    try:
        assert waiting.told(OPERATOR, "scontrol", "create", *reserve, "Nodes=gpu02")
    finally:
        waiting.site.testbed.run(["scontrol", "delete", "ReservationName=taken"])
    refused = [
        ("sacctmgr", "-i", "modify", "user", "alice", "set", "adminlevel=Operator"),
        ("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Administrator"),
        ("scontrol", "update", "NodeName=gpu01", "State=DRAIN", "Reason=x"),
        ("scontrol", "reconfigure"),
        ("scontrol", "token", "username=alice"),
        ("sbatch", "--uid=alice", "--wrap", "id"),
    ]
    assert [words for words in refused if waiting.told(OPERATOR, *words)] == []
