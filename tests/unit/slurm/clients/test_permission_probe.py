"""What Slurm's answers to the trials mean. tests/acceptance/identity asks a real Slurm."""

import pytest

from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.clients.cli.permission_probe import (
    ProbedPermission,
    is_operator,
    probe_permissions,
)
from tests.support.cluster.commands import FakeCommands
from tests.support.patient import PATIENCE_S

NO_OPERATOR = "Error updating the reservation: Invalid user id\nslurm_update error: Invalid user id"
OPERATOR = "slurm_update error: Requested reservation is invalid"


@pytest.fixture
def without_rights(commands: FakeCommands) -> FakeCommands:
    """Slurm, whose answers mean that Mirage's account is no Operator."""
    commands.answers("squeue")
    commands.answers("sacct")
    commands.answers("sinfo", "n1\n")
    commands.answers("sbatch", "7\n")
    commands.answers("scancel")
    commands.answers("scontrol", stderr=NO_OPERATOR, code=1)
    return commands


def found(
    *, hides_jobs: bool = False, accounts: tuple[str, ...] = ()
) -> dict[str, ProbedPermission]:
    runner = CommandRunner(timeout_s=PATIENCE_S)
    told = probe_permissions(
        runner, hides_jobs=hides_jobs, is_operator=is_operator(runner), accounts=accounts
    )
    return {a.move: a for a in told}


def test_a_coordinator_moves_the_jobs_of_the_account(without_rights: FakeCommands) -> None:
    may = found(accounts=("research", "lab"))
    for move in ("free", "pin", "hold"):
        assert may[move].may is True, "though there is no job of its own to try it with"
        assert may[move].explanation.startswith("of the jobs of lab, research (coordinator)")


def test_an_operators_word_is_enough(without_rights: FakeCommands) -> None:
    without_rights.answers("scontrol", stderr=OPERATOR, code=1)
    may = found(hides_jobs=True)
    assert {move: ability.may for move, ability in may.items()} == dict.fromkeys(
        ("queue", "sacct", "free", "pin", "hold", "submit"), True
    )
    assert may["queue"].explanation == "of everybody's jobs"
    assert [call[0] for call in without_rights.calls("sbatch")] == ["--test-only"]


def test_a_trial_job_is_held_and_goes_whatever_comes(without_rights: FakeCommands) -> None:
    may = found(hides_jobs=True)
    assert "--hold" in without_rights.calls("sbatch")[0]
    assert without_rights.calls("scancel") == [["--verbose", "7"]]
    assert [may[move].may for move in ("free", "pin", "hold")] == [False] * 3
    assert "Invalid user id" in may["free"].explanation
    assert "partial" in may["queue"].explanation


def test_without_a_trial_job_nothing_is_known(without_rights: FakeCommands) -> None:
    without_rights.answers("sbatch", stderr="sbatch: error: Batch job submission failed", code=1)
    may = found()
    assert [may[move].may for move in ("free", "pin", "hold", "submit")] == [
        None,
        None,
        None,
        False,
    ]
    assert without_rights.calls("scancel") == []


def test_slurm_away_is_no_permission(without_rights: FakeCommands) -> None:
    away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for command in ("squeue", "sacct", "sbatch", "scontrol"):
        without_rights.answers(command, stderr=away, code=1)
    may = found()
    assert not any(ability.may for ability in may.values())
    assert "Unable to contact" in may["queue"].explanation
