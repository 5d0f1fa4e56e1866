"""Finds this account's permissions in Slurm by trials that have no effect.

The answers of Slurm 22.05.8 were found with tests/acceptance/identity/test_abilities_real.py:

- `scontrol update` of a job that does not exist shows nothing: "Invalid job id" to everybody.
- `scontrol update` of a reservation that does not exist first checks for Operator: "Requested
  reservation is invalid" to Operators, "Invalid user id" to all others. It changes nothing.
- To try moves of own jobs, a held job, which never starts, is submitted, moved and cancelled.
- `sbatch --test-only` uses up a job number.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from mirage.domain.job import JobId
from mirage.errors import ClusterError, MirageError
from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.commands import sbatch, scancel, scontrol
from mirage.slurm.text.command_errors import classify_move_error, classify_query_error

MOVES = ("free", "pin", "hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedPermission:
    move: str
    """One of queue, sacct, free, pin, hold and submit."""
    may: bool | None
    """None: Slurm did not show it."""
    explanation: str


def probe_permissions(
    runner: CommandRunner,
    *,
    hides_jobs: bool,
    is_operator: bool | None,
    accounts: Collection[str] = frozenset(),
) -> list[ProbedPermission]:
    """Try each move and list the permissions found, in the order of `ProbedPermission.move`.

    `hides_jobs`: PrivateData hides jobs; `accounts`: those that this account coordinates.
    """
    permissions = [
        _probe_queue(runner, hides_others=hides_jobs and is_operator is not True),
        _probe_sacct(runner),
    ]
    if is_operator:
        permissions += [
            ProbedPermission(move=m, may=True, explanation="of everybody's jobs (Operator)")
            for m in MOVES
        ]
    else:
        permissions += [
            _extend_for_coordinator(permission, accounts) for permission in _probe_own_moves(runner)
        ]
    return [*permissions, _probe_submit(runner)]


def _extend_for_coordinator(own: ProbedPermission, accounts: Collection[str]) -> ProbedPermission:
    """Add a coordinator's permission: to do to the account's jobs what their owners may do."""
    if not accounts:
        return own
    scope = f"of the jobs of {', '.join(sorted(accounts))} (coordinator)"
    if not own.may:
        return ProbedPermission(
            move=own.move, may=True, explanation=f"{scope}; of one's own: {own.explanation}"
        )
    return ProbedPermission(
        move=own.move, may=True, explanation=f"{scope} and one's own, not of others'"
    )


def is_operator(runner: CommandRunner) -> bool | None:
    """Return whether this account is an Operator; None: Slurm does not show it."""
    try:
        result = runner.run(scontrol.build_operator_probe_argv())
    except ClusterError:
        return None
    return scontrol.parse_operator_probe(result.stderr + result.stdout)


def _probe_queue(runner: CommandRunner, *, hides_others: bool) -> ProbedPermission:
    def ask_squeue() -> str:
        _run_query(runner, ["squeue", "--noheader", "--me", "--format=%i"])
        partial_view = "of one's own alone (PrivateData): the view is partial"
        return partial_view if hides_others else "of everybody's jobs"

    return _try_action("queue", ask_squeue)


def _probe_sacct(runner: CommandRunner) -> ProbedPermission:
    def ask_sacct() -> str:
        argv = ["sacct", "--noheader", "--allocations", "--format=JobID", "--starttime=now-1minute"]
        _run_query(runner, argv)
        return "accounting answers"

    return _try_action("sacct", ask_sacct)


def _probe_own_moves(runner: CommandRunner) -> list[ProbedPermission]:
    """Try the moves on a held job of one's own. The job is cancelled, whatever the trials give."""
    try:
        job_id = _submit_held_job(runner)
    except MirageError as error:
        explanation = f"there is no job to try it with: {error}"
        return [ProbedPermission(move=move, may=None, explanation=explanation) for move in MOVES]
    try:
        return [_probe_move(runner, move, argv) for move, argv in _build_trials(runner, job_id)]
    finally:
        runner.run(scancel.build_argv(job_id))


def _submit_held_job(runner: CommandRunner) -> JobId:
    result = runner.run(sbatch.build_held_argv())
    complaint = classify_move_error(
        "sbatch", result.code, "" if result.code == 0 else result.stderr
    )
    if complaint is not None:
        raise complaint
    return sbatch.parse_job_id(result.stdout)


def _build_trials(runner: CommandRunner, job_id: JobId) -> list[tuple[str, list[str]]]:
    """Build the trials. None of them lets a held job start."""
    some_node = runner.run(["sinfo", "--noheader", "--Node", "--format=%N"]).stdout.split()
    return [
        ("free", scontrol.build_free_argv(job_id, "", unpin=False)),
        ("pin", scontrol.build_pin_argv(job_id, "", some_node[0] if some_node else "")),
        ("hold", scontrol.build_set_dependency_argv(job_id, "singleton", unpin=True)),
    ]


def _probe_move(runner: CommandRunner, move: str, argv: Sequence[str]) -> ProbedPermission:
    def run_move() -> str:
        result = runner.run(argv)
        complaint = classify_move_error(argv[0], result.code, result.stderr)
        if complaint is not None:
            raise complaint
        return "of one's own jobs, not of others' (neither Operator nor coordinator)"

    return _try_action(move, run_move)


def _probe_submit(runner: CommandRunner) -> ProbedPermission:
    def test_submission() -> str:
        result = runner.run(sbatch.build_test_only_argv())
        complaint = classify_move_error(
            "sbatch", result.code, "" if result.code == 0 else result.stderr
        )
        if complaint is not None:
            raise complaint
        return "jobs of one's own"

    return _try_action("submit", test_submission)


def _try_action(move: str, action: Callable[[], str]) -> ProbedPermission:
    try:
        return ProbedPermission(move=move, may=True, explanation=action())
    except MirageError as error:
        return ProbedPermission(move=move, may=False, explanation=str(error))


def _run_query(runner: CommandRunner, argv: Sequence[str]) -> None:
    result = runner.run(argv)
    complaint = classify_query_error(argv[0], result.code, result.stderr)
    if complaint is not None:
        raise complaint
