"""No answer, or the answer no: told apart on what a real Slurm said."""

import pytest

from mirage.errors import AccountingOff, ClusterRefused, ClusterUnavailable
from mirage.slurm.text.command_errors import classify_move_error, classify_query_error
from tests.support.slurm.captured import Captures, Outcome


def _move(seen: Outcome) -> Exception | None:
    return classify_move_error(seen.argv[0], seen.code, seen.stderr)


def _query(seen: Outcome) -> Exception | None:
    return classify_query_error(seen.argv[0], seen.code, seen.stderr)


@pytest.mark.parametrize(
    "name",
    [
        "update-by-another-user",
        "update-no-such-job",
        "update-ended-job",
        "update-bad-key",
        "update-dependency-of-running",
        "update-admin-comment-by-operator",
        "scancel-another-users",
    ],
)
def test_slurm_said_no(captures: Captures, name: str) -> None:
    seen = captures.outcome(name)
    error = _move(seen)
    assert type(error) is ClusterRefused
    assert seen.stderr.strip().splitlines()[0] in str(error)


@pytest.mark.parametrize("name", ["slurmctld-down-scontrol-update", "slurmctld-down-scancel"])
def test_a_move_without_slurmctld_is_not_a_no(captures: Captures, name: str) -> None:
    assert type(_move(captures.outcome(name))) is ClusterUnavailable


@pytest.mark.parametrize("name", ["update-by-operator", "scancel-ended-job", "scancel-no-such-job"])
def test_a_move_that_was_done(captures: Captures, name: str) -> None:
    assert _move(captures.outcome(name)) is None


@pytest.mark.parametrize(
    "name",
    [
        "slurmctld-down-squeue",
        "slurmctld-down-sinfo",
        "slurmctld-down-scontrol-show-job",
        "slurmdbd-down-sacct",
        "no-slurm-conf-squeue",
        "squeue-bad-option",
        "sacct-bad-field",
    ],
)
def test_a_query_without_an_answer_is_unavailable(captures: Captures, name: str) -> None:
    assert type(_query(captures.outcome(name))) is ClusterUnavailable


def test_a_query_with_an_answer_has_no_complaint(captures: Captures) -> None:
    assert _query(captures.outcome("squeue-two-one-gone")) is None


def test_accounting_that_is_off_is_a_no() -> None:
    error = classify_query_error("sacct", 1, "Slurm accounting storage is disabled\n")
    assert type(error) is AccountingOff


@pytest.mark.parametrize(
    "stderr",
    [
        "slurm_load_jobs error: Socket timed out on send/recv operation\n",
        "squeue: error: Munge decode failed: Expired credential\n",
        "slurm_load_jobs error: Zero Bytes were transmitted or received\n",
        "slurm_load_jobs error: Slurm backup controller in standby mode\n",
        "squeue: error: Security violation, slurm message from uid 1\n",
    ],
)
def test_success_with_an_error_on_stderr_is_no_answer(stderr: str) -> None:
    assert type(classify_query_error("squeue", 0, stderr)) is ClusterUnavailable


def test_a_warning_on_stderr_spoils_no_answer() -> None:
    assert classify_query_error("squeue", 0, "squeue: s_p_parse_file: file is empty\n") is None


@pytest.mark.parametrize("code", [-9, 1, 255])
def test_an_end_without_a_word_says_nothing_of_the_job(code: int) -> None:
    assert type(classify_move_error("scontrol", code, "")) is ClusterUnavailable
    assert type(classify_query_error("squeue", code, "")) is ClusterUnavailable


@pytest.mark.parametrize(
    "stderr",
    [
        "Unable to contact slurm controller (connect failure) for job 3\n",
        "Socket timed out on send/recv operation for job 3\n",
        "Job update not available right now, the DB index is being set, try again in a bit\n",
        "Requested operation is presently disabled for job 3\n",
        "scontrol: error: RPC rate limit exceeded by uid 5, sleeping\n",
    ],
)
def test_a_move_to_be_tried_again(stderr: str) -> None:
    assert type(classify_move_error("scontrol", 1, stderr)) is ClusterUnavailable


def test_the_message_names_command_words_and_code_once() -> None:
    error = classify_query_error("squeue", 1, "no\n\nno\nreally\n")
    assert str(error) == "squeue: no; really (exit code 1)"
    assert "ended by signal 9" in str(classify_query_error("squeue", -9, ""))
