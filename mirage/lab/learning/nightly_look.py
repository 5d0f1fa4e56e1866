"""The look of each night: whether there is a reason to learn, and the run, which the database
keeps."""

from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.learning_lock import hold_learning_lock
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.domain.time_units import HOUR_S
from mirage.errors import InputError, MirageError, StoreError
from mirage.lab.learning.learn_request import BudgetSpent, LearnRequest, NothingToLearn
from mirage.lab.learning.learning_run import LearningRun
from mirage.lab.learning.reasons import LearningPast, LearningReason, find_reason
from mirage.lab.learning.settling import read_losses, read_not_asked, settle_models
from mirage.lab.site_history import find_cluster_id
from mirage.lab.study_output import StudyOutput

Document = dict[str, Any]

_SETTLING = "models are judged on newer days"
_RUNS_READ = 200
"""Among so many runs the last training is looked for."""


def run_learning(request: LearnRequest, output: StudyOutput) -> Document:
    """Learn if there is reason to, and return what came of it; the database keeps it too.

    Raises AlreadyLearning while another run goes on, and MirageError for a fault. Finished stages
    are kept whatever ends the run, and the next run goes on from them.
    """
    with hold_learning_lock(request.store):
        request.folder.create()
        try:
            with _recording_faults(request, _SETTLING):
                settled = settle_models(request, output)
        except BudgetSpent as error:
            run_id = _begin_run(request, _SETTLING)
            document = {"reason": _SETTLING, "sentence": str(error)}
            return _finish_run(request, run_id, RunState.INTERRUPTED, document)
        reason = read_reason(request)
        run_id = _begin_run(request, reason.text if reason.is_due else "")
        learning = LearningRun(request, output)
        with _recording_faults(request, reason.text, run_id, learning.build_document):
            state, document = _learn(request, learning, reason)
        outcome = {
            "settled": settled,
            "not_asked": read_not_asked(request),
            "reason": reason.text,
        } | document
        return _finish_run(request, run_id, state, outcome)


def _learn(
    request: LearnRequest, learning: LearningRun, reason: LearningReason
) -> tuple[RunState, Document]:
    """Learn if there is a reason, and return what came of it."""
    if not reason.is_due:
        sentence = f"There is nothing to learn today: {reason.text}."
        return RunState.NOTHING_TO_DO, {"sentence": sentence}
    try:
        return RunState.DONE, learning.learn()
    except NothingToLearn as error:
        request.folder.delete_run()
        return RunState.NOTHING_TO_DO, learning.build_document() | {"sentence": str(error)}
    except BudgetSpent as error:
        return RunState.INTERRUPTED, learning.build_document() | {"sentence": str(error)}


@contextmanager
def _recording_faults(
    request: LearnRequest,
    reason: str,
    run_id: int | None = None,
    build_document: Callable[[], Document] = dict,
) -> Iterator[None]:
    """Keep what ended the body early in the database, as a failed or an interrupted run.

    A fault of the site is raised as MirageError. Without `run_id` a run of its own is kept.
    """
    try:
        yield
    except BudgetSpent:  # no fault: the caller ends the run
        raise
    except KeyboardInterrupt:
        recorded_id = run_id or _begin_run(request, reason)
        document = build_document() | {"sentence": "The run was interrupted."}
        _finish_run(request, recorded_id, RunState.INTERRUPTED, document)
        raise
    except Exception as error:
        fault = _explain_fault(error)
        # A disk that is full may refuse this, too; the fault itself is what people must read.
        with suppress(StoreError):
            recorded_id = run_id or _begin_run(request, reason)
            document = build_document() | {"error": str(fault or error)}
            _finish_run(request, recorded_id, RunState.FAILED, document)
        if fault is None or fault is error:
            raise
        raise fault from error


def _explain_fault(error: Exception) -> MirageError | None:
    """Return a fault as a sentence for people; None for a fault of the program."""
    if isinstance(error, MirageError):
        return error
    if isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        return InputError(f"learning cannot go on: {what}{error.strerror or error}")
    if isinstance(error, MemoryError | BrokenProcessPool):
        return MirageError(
            "learning ran out of memory: lower learn.weeks, or give its unit more (MemoryMax)"
        )
    return None


def plan_learning(request: LearnRequest, scratch: Path, output: StudyOutput) -> Document:
    """Return what `run_learning` would do, why, and about how long it would take.

    Nothing is changed; the history is exported into the folder `scratch`.
    """
    reason = read_reason(request)
    learning = LearningRun(request, output, scratch)
    learning.check_models_folder()
    try:
        plan = learning.plan()
    except NothingToLearn as error:
        sentence = str(error)
    else:
        span = (
            f"{plan.wall_s / 60:.0f} min"
            if plan.wall_s < HOUR_S
            else f"{plan.wall_s / HOUR_S:.1f} h"
        )
        run = "A run" if reason.is_due else "There is nothing to learn today. A run with --now"
        sentence = (
            f"{run} would make {len(plan.missing)} tables, train {', '.join(plan.families)}, and "
            f"take about {span}."
        )
    return learning.build_document() | {
        "state": "dry-run",
        "reason": reason.text,
        "is_due": reason.is_due,
        "sentence": sentence,
    }


def read_reason(request: LearnRequest) -> LearningReason:
    """Find out whether there is a reason to learn."""
    standing, runs = None, []
    with request.store.read() as tx:
        cluster_id = find_cluster_id(tx, request.cluster)
        if cluster_id is not None:
            standing = challenges.find_standing_challenge(tx, cluster_id)
            runs = learning_runs.read_runs(tx, cluster_id, most=_RUNS_READ)
    trained = (run.document.get("trained_at") for run in runs if run.state is RunState.DONE)
    past = LearningPast(
        trained_at=next((int(at) for at in trained if at), None),
        has_model=request.champion is not None,
        challenger=None if standing is None else standing.model,
        proposed_at=0 if standing is None else standing.proposed_at,
        losses=read_losses(request),
        interrupted_at=request.folder.find_open_run(request.now),
    )
    return find_reason(
        past, forced=request.is_forced, every_days=request.rules.every_days, now=request.now
    )


def _begin_run(request: LearnRequest, reason: str) -> int:
    with request.store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, request.cluster)
        return learning_runs.begin_run(tx, cluster_id, at=request.now, reason=reason)


def _finish_run(
    request: LearnRequest, run_id: int, state: RunState, document: Document
) -> Document:
    with request.store.begin() as tx:
        learning_runs.finish_run(
            tx, run_id, at=request.read_clock(), state=state, document=document
        )
    return {"run": run_id, "state": state.value} | document
