"""Checks whether the site learns: the last run, a model that waits for an admin, and a model in use
that decides nothing."""

import time
from contextlib import closing

from mirage.cli.doctor.finding import Severity
from mirage.config.settings import Settings
from mirage.database.jobs import queue_sums
from mirage.database.learning.challenges import ChallengeState
from mirage.database.learning.learning_runs import RunState
from mirage.database.operations import clusters
from mirage.domain.time_units import DAY_S
from mirage.reports.learning_status import LearningStatus, explain_run, read_learning_status
from mirage.service import database_setup
from mirage.web.formatting import format_day

_TIMER = "timer"
_UNFINISHED = 3
"""So many runs in a row that come to no end are too many: each goes on for 36 hours at most."""
_LATE_S = 2 * DAY_S
"""Runs are looks of each night: two nights without one are too many."""


def check_learning(settings: Settings) -> tuple[Severity, str]:
    """Check whether the last run of learning went well, whether a model waits for an admin, and
    whether the one in use decides."""
    if settings.learn.schedule == "off":
        return Severity.GOOD, "learn.schedule is off: nothing is learned by itself"
    now = int(time.time())
    with closing(database_setup.open_store(settings)) as store, store.read() as tx:
        ids = {name: number for number, name in clusters.list_cluster_names(tx).items()}
        cluster_id = ids.get(settings.cluster.name, 0)
        watched_since = queue_sums.find_first_taken_at(tx, cluster_id)
        status = read_learning_status(tx, cluster_id, settings.cluster.name, settings.models_dir)
    if status.champion is not None and status.champion.not_asked:
        return Severity.WARNING, status.champion.not_asked
    if not status.runs:
        return _judge_absence("no run of learning yet", watched_since, settings, now)
    return _judge_runs(status, settings, now)


def _judge_runs(status: LearningStatus, settings: Settings, now: int) -> tuple[Severity, str]:
    """Judge the newest runs and the challenger."""
    last, challenge = status.runs[0], status.challenger
    sentence = f"the last run began {format_day(last.begun_at, now)} UTC: {explain_run(last)}"
    if last.state is RunState.FAILED:
        return Severity.WARNING, sentence
    if challenge is not None and challenge.state is ChallengeState.PROPOSED:
        return Severity.WARNING, (
            f"{challenge.model} waits for an admin since {format_day(challenge.judged_at or now)} "
            "UTC: promote or decline it on the page Admin"
        )
    newest = [run.state for run in status.runs[:_UNFINISHED]]
    if newest == [RunState.INTERRUPTED] * _UNFINISHED:
        return Severity.WARNING, (
            f"{sentence} None of the last {_UNFINISHED} runs was finished: give them more time "
            "(learn.budget_h), or see whether their jobs wait in Slurm"
        )
    return _judge_absence(sentence, last.begun_at, settings, now)


def _judge_absence(
    sentence: str, since: int | None, settings: Settings, now: int
) -> tuple[Severity, str]:
    """Warn if no run began for two nights, although the service has watched that long."""
    if since is None or now - since < _LATE_S:
        return Severity.GOOD, sentence
    remedy = (
        "run `systemctl enable --now mirage-learn.timer`, or set learn.schedule"
        if settings.learn.schedule == _TIMER
        else "the service starts one each night: see its log"
    )
    return Severity.WARNING, f"{sentence}; none since for two nights: {remedy}"
