"""Whose hold it is, from what Slurm prints before and after a move: commands and slurmrestd.

What every cluster does is in test_contract.py, on the real ones.
"""

from pathlib import Path

import pytest

from mirage.domain.job import JobId
from mirage.errors import ClusterUnavailable, JobChanged
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.text.delimited_rows import SEPARATOR
from tests.support.cluster.commands import FakeCommands
from tests.support.cluster.restd import FakeRestd
from tests.support.patient import PATIENCE_S

JOB, ALICE = JobId(7), 1001
AT = "/slurm/v0.0.38/job/7"
WAITS, USERS, ADMINS = "PENDING|Dependency|1", "PENDING|JobHeldUser|0", "PENDING|JobHeldAdmin|0"
RUNS, RUNS_HELD = "RUNNING|None|1", "RUNNING|JobHeldUser|0"


@pytest.fixture
def slurm(commands: FakeCommands) -> SlurmCli:
    commands.answers("scontrol")
    return SlurmCli(timeout_s=PATIENCE_S)


def printed(*rows: str) -> str:
    return "".join(f"7|{ALICE}||{row}||\n".replace("|", SEPARATOR) for row in rows)


def shows(commands: FakeCommands, folder: Path, *before: str, after: str = USERS) -> None:
    """What squeue prints until scontrol was called, and from then on."""
    (folder / "before").write_text(printed(*before))
    (folder / "after").write_text(printed(after))
    moved = folder / "bin" / "scontrol.log"
    script = f"[ -e {moved} ] && exec cat {folder}/after; exec cat {folder}/before"
    commands.runs("squeue", f"#!/bin/sh\n{script}\n")


def told(commands: FakeCommands) -> list[list[str]]:
    return commands.calls("scontrol")


def test_what_waits_unheld_is_held(commands: FakeCommands, slurm: SlurmCli, tmp_path: Path) -> None:
    shows(commands, tmp_path, WAITS)
    slurm.hold_job(JOB, owner=ALICE)
    assert told(commands) == [["uhold", "7"]]


@pytest.mark.parametrize(
    "before",
    [
        [ADMINS],
        [USERS],
        ["PENDING|JobHoldMaxRequeue|0"],
        ["PENDING|BadConstraints|0"],
        [RUNS],
        ["CANCELLED|None|1"],
        [WAITS, ADMINS],  # a het job, and an admin holds its second component
    ],
)
def test_what_is_held_or_does_not_wait_is_left_alone(
    commands: FakeCommands, slurm: SlurmCli, tmp_path: Path, before: list[str]
) -> None:
    """slurmctld would make a user's hold of each of these."""
    shows(commands, tmp_path, *before)
    with pytest.raises(JobChanged):
        slurm.hold_job(JOB, owner=ALICE)
    assert told(commands) == []


def test_an_admins_hold_just_after_ours_is_told(
    commands: FakeCommands, slurm: SlurmCli, tmp_path: Path
) -> None:
    shows(commands, tmp_path, WAITS, after=ADMINS)
    with pytest.raises(JobChanged, match="by an admin just now"):
        slurm.hold_job(JOB, owner=ALICE)
    assert told(commands) == [["uhold", "7"]]


def test_a_hold_that_reached_a_job_which_had_just_started_is_taken_back(
    commands: FakeCommands, slurm: SlurmCli, tmp_path: Path
) -> None:
    shows(commands, tmp_path, WAITS, after=RUNS_HELD)
    with pytest.raises(JobChanged, match="is not waiting any more"):
        slurm.hold_job(JOB, owner=ALICE)
    assert told(commands) == [["uhold", "7"], ["release", "7"]]


def test_a_users_hold_is_released(commands: FakeCommands, slurm: SlurmCli, tmp_path: Path) -> None:
    shows(commands, tmp_path, USERS)
    slurm.release_job(JOB, owner=ALICE)
    assert told(commands) == [["release", "7"]]


NOT_A_USERS = [
    [ADMINS],
    [WAITS],
    ["PENDING|JobHoldMaxRequeue|0"],
    ["PENDING|BadConstraints|0"],
    ["PENDING|launch failed requeued held|0"],
    [RUNS_HELD],
    [USERS, ADMINS],
]


@pytest.mark.parametrize("before", NOT_A_USERS)
def test_no_other_hold_is_released(
    commands: FakeCommands, slurm: SlurmCli, tmp_path: Path, before: list[str]
) -> None:
    shows(commands, tmp_path, *before)
    with pytest.raises(JobChanged):
        slurm.release_job(JOB, owner=ALICE)
    assert told(commands) == []


@pytest.mark.parametrize("move", ["hold_job", "release_job"])
def test_nothing_is_moved_whose_hold_is_not_known(
    commands: FakeCommands, slurm: SlurmCli, move: str
) -> None:
    commands.answers("squeue", stderr="squeue: error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(ClusterUnavailable):
        getattr(slurm, move)(JOB, owner=ALICE)
    commands.answers("squeue", printed(USERS), cut=1)
    with pytest.raises(ClusterUnavailable, match="does not read"):
        getattr(slurm, move)(JOB, owner=ALICE)
    assert told(commands) == []


def test_no_text_that_users_write_is_asked_for(
    commands: FakeCommands, slurm: SlurmCli, tmp_path: Path
) -> None:
    commands.answers("squeue", printed(USERS))
    slurm.release_job(JOB, owner=ALICE)
    ((*_, asked),) = commands.calls("squeue")
    names = [field.partition(":")[0] for field in asked.removeprefix("--Format=").split(",")]
    assert names[:-1] == ["JobID", "UserID", "ReqNodes", "State", "Reason", "PriorityLong"]
    assert names[-1] == "Dependency", "which slurmctld prints as it has parsed it"


def test_through_slurmrestd_a_users_hold_is_released(fake: FakeRestd) -> None:
    held, free = ({"errors": [], "jobs": [_payload(row)]} for row in (USERS, "PENDING|None|7"))
    fake.answers(AT, {"errors": []})
    fake.answers_in_turn(AT, (200, held), (200, free), method="GET")
    Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S)).release_job(JOB, owner=ALICE)
    assert [asked.body for asked in fake.calls(AT)] == [None, {"hold": False}, None]


def test_through_slurmrestd_a_hold_that_stays_is_no_release(fake: FakeRestd) -> None:
    fake.answers(AT, {"errors": [], "jobs": [_payload(USERS)]})
    with pytest.raises(ClusterUnavailable, match="it is still held"):
        Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S)).release_job(JOB, owner=ALICE)


@pytest.mark.parametrize("before", NOT_A_USERS)
def test_through_slurmrestd_no_other_hold_is_released(fake: FakeRestd, before: list[str]) -> None:
    fake.answers(AT, {"errors": [], "jobs": [_payload(row) for row in before]})
    with pytest.raises(JobChanged):
        Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S)).release_job(JOB, owner=ALICE)
    assert [asked.method for asked in fake.calls(AT)] == ["GET"]


def _payload(row: str) -> dict[str, object]:
    """As v0.0.38 has it."""
    state, reason, priority = row.split("|")
    return {
        "job_id": 7,
        "submit_time": 5,
        "user_id": ALICE,
        "job_state": state,
        "state_reason": reason,
        "state_description": "",
        "priority": int(priority),
    }
