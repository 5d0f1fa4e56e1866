"""The look of each night: whether there is a reason to learn, and the run, which the database
keeps."""

import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.errors import InputError, MirageError, StoreError
from mirage.lab.learning.learn_request import BudgetSpent, LearnRequest, NothingToLearn
from mirage.lab.learning.learning_run import LearningRun
from mirage.lab.learning.reasons import LearningPast, LearningReason, find_reason
from mirage.lab.learning.run_folder import AlreadyLearning
from mirage.lab.site_history import find_cluster_id
from mirage.lab.study_output import StudyOutput

Document = dict[str, Any]

_RUNS_READ = 200
"""Among so many runs the last training is looked for."""


def run_learning(request: LearnRequest, output: StudyOutput) -> Document:
    """Learn if there is reason to, and return what came of it; the database keeps it too.

    Raises AlreadyLearning while another run goes on, and MirageError for a fault. Finished stages
    are kept whatever ends the run, and the next run goes on from them.
    """
    with request.folder.lock():
        reason = read_reason(request)
        run_id = _begin_run(request, reason)
        if not reason.is_given:
            document = {"sentence": f"There is nothing to learn today: {reason.text}."}
            return _finish_run(request, run_id, RunState.NOTHING_TO_DO, document)
        learning = LearningRun(request, output)
        try:
            state, document = RunState.DONE, learning.learn()
        except NothingToLearn as error:
            request.folder.delete_run()
            state = RunState.NOTHING_TO_DO
            document = learning.build_document() | {"sentence": str(error)}
        except BudgetSpent as error:
            state = RunState.INTERRUPTED
            document = learning.build_document() | {"sentence": str(error)}
        except KeyboardInterrupt:
            document = learning.build_document() | {"sentence": "The run was interrupted."}
            _finish_run(request, run_id, RunState.INTERRUPTED, document)
            raise
        except Exception as error:
            fault = _explain_fault(error)
            document = learning.build_document() | {"error": str(fault or error)}
            # A disk that is full may refuse this, too; the fault itself is what people must read.
            with suppress(StoreError):
                _finish_run(request, run_id, RunState.FAILED, document)
            if fault is None:
                raise
            raise fault from error
        return _finish_run(request, run_id, state, document)


def _explain_fault(error: Exception) -> MirageError | None:
    """Return a fault as a sentence for people; None for a fault of the program."""
    if isinstance(error, MirageError):
        return error
    if isinstance(error, OSError):
        return InputError(
            f"learning cannot go on: {error.filename or ''} {error.strerror or error}"
        )
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
    try:
        plan = learning.plan()
    except NothingToLearn as error:
        sentence = str(error)
    else:
        hours = (plan.tables_s + plan.training_s) / 3600
        sentence = (
            f"A run would make {len(plan.missing)} tables, train {', '.join(plan.families)}, and "
            f"take about {hours:.1f} h."
        )
    return learning.build_document() | {
        "state": "dry-run",
        "reason": reason.text,
        "is_due": reason.is_given,
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
        challenger=None if standing is None else standing.model,
        proposed_at=0 if standing is None else standing.proposed_at,
        interrupted_at=request.folder.find_open_run(request.now),
    )
    return find_reason(
        past, forced=request.is_forced, every_days=request.rules.every_days, now=request.now
    )


def _begin_run(request: LearnRequest, reason: LearningReason) -> int:
    """Store that a run begins. Raises AlreadyLearning if one goes on on another host."""
    with request.store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, request.cluster)
        newest = next(iter(learning_runs.read_runs(tx, cluster_id, most=1)), None)
        # This host's own runs hold the lock of the folder, so one stored as running was killed.
        is_elsewhere = request.store.is_shared and request.folder.find_open_run(request.now) is None
        if newest is not None and newest.state is RunState.RUNNING and is_elsewhere:
            over = newest.begun_at + 2 * request.budget.wall_s
            if request.now < over:
                raise AlreadyLearning("another host learns from this database: wait for its end")
        text = reason.text if reason.is_given else ""
        return learning_runs.begin_run(tx, cluster_id, at=request.now, reason=text)


def _finish_run(
    request: LearnRequest, run_id: int, state: RunState, document: Document
) -> Document:
    with request.store.begin() as tx:
        learning_runs.finish_run(
            tx, run_id, at=max(request.now, int(time.time())), state=state, document=document
        )
    return {"run": run_id, "state": state.value} | document
