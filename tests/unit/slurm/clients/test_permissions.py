"""Slurm's permissions as Mirage keeps them: whose jobs it may move, and answers that grow old."""

import os
import pwd

from structlog.testing import capture_logs

from mirage.domain.callers.move_scope import EVERYBODY, UNKNOWN, MoveScope
from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.permissions import ReachReporter, compute_reach
from mirage.slurm.clients.polled_value import KEPT_PERIODS, RETRY_S, PolledValue
from mirage.slurm.commands.sacctmgr import NO_ROSTER, Roster

COORDINATOR = MoveScope(accounts=frozenset({"research"}), uid=77)


def test_who_may_move_what_is_read_from_the_roster() -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    known = Roster(
        operators=frozenset({"op"}), coordinated={"co": frozenset({"b", "a"}), me: frozenset({"c"})}
    )
    assert (
        compute_reach("op", known)
        is compute_reach("root", known)
        is compute_reach("slurm", known, "slurm")
        is EVERYBODY
    )
    assert compute_reach("whoever", NO_ROSTER) is UNKNOWN, "nobody says: it is tried"
    assert UNKNOWN.can_move(1, "a")
    assert compute_reach("root", NO_ROSTER) is EVERYBODY
    coordinator = compute_reach("co", known)
    assert coordinator.describe_scope() == "jobs of accounts that it coordinates (a, b)"
    assert (coordinator.can_move(0, "a"), coordinator.can_move(0, "d")) == (True, False)
    daemon = compute_reach("daemon", known)
    assert daemon.can_move(pwd.getpwnam("daemon").pw_uid, "d"), "its own"
    assert "neither Operator nor coordinator" in daemon.describe_scope()


def test_a_change_of_rights_is_said_once() -> None:
    found = [MoveScope(uid=77), MoveScope(uid=77), COORDINATOR, COORDINATOR, UNKNOWN]
    ask = ReachReporter(iter(found).__next__)
    with capture_logs() as said:
        assert [ask() for _ in found] == found
    assert [line["jobs"] for line in said] == [
        COORDINATOR.describe_scope(),
        UNKNOWN.describe_scope(),
    ]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_slurm_is_asked_once_a_period_and_believed_for_a_while() -> None:
    clock, answers = Clock(), iter(["first", None, None, "second"])
    asked = []

    def ask() -> str:
        asked.append(clock.now)
        answer = next(answers)
        if answer is None:
            raise ClusterUnavailable("slurmdbd is away")
        return answer

    polled = PolledValue("roster", ask, default="nobody", every_s=600, clock=clock)

    def told() -> str:
        polled.ask_if_due()
        return polled()

    assert polled() == "nobody", "to read it asks nobody"
    assert [told(), told()] == ["first", "first"]
    clock.now += 600
    assert [told(), told()] == ["first", "first"], "kept while there is no answer"
    assert len(asked) == 2, "and not asked again at once"
    clock.now = 1000 + KEPT_PERIODS * 600 + 1
    assert told() == "nobody", "until it is too old"
    clock.now += RETRY_S
    assert told() == "nobody", "asked more and more rarely"
    clock.now += RETRY_S
    assert told() == "second"


def test_what_was_never_told_is_unknown() -> None:
    def ask() -> str:
        raise ClusterUnavailable("slurmctld is away")

    polled = PolledValue("PrivateData", ask, default="everything", every_s=600)
    polled.ask_if_due()
    assert polled() == "everything"
