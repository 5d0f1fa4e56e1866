"""What this account may do in Slurm, found by trying it where nothing comes of it.

What Slurm 22.05.8 answers was found with tests/identity/test_abilities_real.py:

- `scontrol update` of a job that is not there says nothing: "Invalid job id" to everybody.
- `scontrol update` of a reservation that is not there asks for Operator first: "Requested
  reservation is invalid" to Operators, "Invalid user id" to all others. It changes nothing.
- One's own jobs: a held job of one's own, which never starts, is moved and cancelled.
- `sbatch --test-only` costs a job number.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from mirage.cluster.cli.command_runner import Runner
from mirage.domain.job import JobId
from mirage.errors import ClusterError, MirageError
from mirage.slurm.commands import sbatch, scancel, scontrol
from mirage.slurm.text.command_errors import classify_move_error, classify_query_error

MOVES = ("free", "pin", "hold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    move: str
    """queue, sacct, free, pin, hold, submit."""
    may: bool | None
    """None: Slurm did not say."""
    told: str


def abilities(
    runner: Runner,
    *,
    hides_jobs: bool,
    operator: bool | None,
    accounts: Collection[str] = frozenset(),
) -> list[Ability]:
    """In the order of `Ability.move`. `hides_jobs`: PrivateData says so; `accounts`: that this
    account coordinates."""
    found = [_queue(runner, hidden=hides_jobs and operator is not True), _sacct(runner)]
    if operator:
        found += [Ability(move=m, may=True, told="of everybody's jobs (Operator)") for m in MOVES]
    else:
        found += [_coordinated(own, accounts) for own in _own_moves(runner)]
    return [*found, _submit(runner)]


def _coordinated(own: Ability, accounts: Collection[str]) -> Ability:
    """Slurm lets a coordinator do to the account's jobs what their owners may do."""
    if not accounts:
        return own
    whose = f"of the jobs of {', '.join(sorted(accounts))} (coordinator)"
    if not own.may:
        return Ability(move=own.move, may=True, told=f"{whose}; of one's own: {own.told}")
    return Ability(move=own.move, may=True, told=f"{whose} and one's own, not of others'")


def is_operator(runner: Runner) -> bool | None:
    """None where Slurm does not say."""
    try:
        done = runner.run(scontrol.build_operator_probe_argv())
    except ClusterError:
        return None
    return scontrol.parse_operator_probe(done.stderr + done.stdout)


def _queue(runner: Runner, *, hidden: bool) -> Ability:
    def look() -> str:
        _query(runner, ["squeue", "--noheader", "--me", "--format=%i"])
        seen = "of one's own alone (PrivateData): the view is partial"
        return seen if hidden else "of everybody's jobs"

    return _tried("queue", look)


def _sacct(runner: Runner) -> Ability:
    def look() -> str:
        argv = ["sacct", "--noheader", "--allocations", "--format=JobID", "--starttime=now-1minute"]
        _query(runner, argv)
        return "accounting answers"

    return _tried("sacct", look)


def _own_moves(runner: Runner) -> list[Ability]:
    """With a held job of one's own: it is cancelled, whatever comes of it."""
    try:
        job_id = _held(runner)
    except MirageError as error:
        why = f"there is no job to try it with: {error}"
        return [Ability(move=move, may=None, told=why) for move in MOVES]
    try:
        return [_moved(runner, move, argv) for move, argv in _trials(runner, job_id)]
    finally:
        runner.run(scancel.build_argv(job_id))


def _held(runner: Runner) -> JobId:
    done = runner.run(sbatch.build_held_argv())
    complaint = classify_move_error("sbatch", done.code, "" if done.code == 0 else done.stderr)
    if complaint is not None:
        raise complaint
    return sbatch.parse_job_id(done.stdout)


def _trials(runner: Runner, job_id: JobId) -> list[tuple[str, list[str]]]:
    """None of these lets a held job start."""
    some_node = runner.run(["sinfo", "--noheader", "--Node", "--format=%N"]).stdout.split()
    return [
        ("free", scontrol.build_free_argv(job_id, "", unpin=False)),
        ("pin", scontrol.build_pin_argv(job_id, "", some_node[0] if some_node else "")),
        ("hold", scontrol.build_set_dependency_argv(job_id, "singleton", unpin=True)),
    ]


def _moved(runner: Runner, move: str, argv: Sequence[str]) -> Ability:
    def act() -> str:
        done = runner.run(argv)
        complaint = classify_move_error(argv[0], done.code, done.stderr)
        if complaint is not None:
            raise complaint
        return "of one's own jobs, not of others' (neither Operator nor coordinator)"

    return _tried(move, act)


def _submit(runner: Runner) -> Ability:
    def act() -> str:
        done = runner.run(sbatch.build_test_only_argv())
        complaint = classify_move_error("sbatch", done.code, "" if done.code == 0 else done.stderr)
        if complaint is not None:
            raise complaint
        return "jobs of one's own"

    return _tried("submit", act)


def _tried(move: str, act: Callable[[], str]) -> Ability:
    try:
        return Ability(move=move, may=True, told=act())
    except MirageError as error:
        return Ability(move=move, may=False, told=str(error))


def _query(runner: Runner, argv: Sequence[str]) -> None:
    done = runner.run(argv)
    complaint = classify_query_error(argv[0], done.code, done.stderr)
    if complaint is not None:
        raise complaint
