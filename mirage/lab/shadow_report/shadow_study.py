"""The shadow report from a log: its pairs chosen, a table made of each, policies judged on them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import InputError
from mirage.history.workloads import replay
from mirage.judging.policy_runner import OWN_PLAN
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.episodes.generation.resumable_build import BuiltTable, TablePlan
from mirage.lab.evaluation.policy_evaluation import (
    ORACLE,
    SWITCH,
    EvaluationRequest,
    run_evaluation,
)
from mirage.lab.shadow_report.document import Document, build_document, build_empty_document
from mirage.lab.shadow_report.handover_pairs import (
    HandoverPair,
    ReportOptions,
    check_window,
    choose_pairs,
    compute_window,
)
from mirage.lab.simulation.log_waits import compare_waits
from mirage.lab.site_history import JobLog
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.table_plan import build_plan
from mirage.policies.registry import AUTO
from mirage.simulator.types import Params

JUDGED = ("reactive", "average", ORACLE, OWN_PLAN, SWITCH, "fixed-lead", "slurm-estimate", AUTO)
"""The judged policies, in the order of `mirage evaluate`."""

Tables = list[tuple[HandoverPair, Path, EpisodeTable]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowStudy:
    """The inputs of a shadow report."""

    log: JobLog
    params: Params
    taken: replay.Replay
    """The log as it is replayed on `params`."""
    folder: Path
    """The folder of the tables."""
    models: Path
    overlap_price: float
    make_table: Callable[[TablePlan, Path], BuiltTable]
    announce: Callable[[int, int, str], None]
    """Called before each table is made, with its number, the number of tables, and the name of
    its pair."""


def build_report(study: ShadowStudy, asked: ReportOptions, output: StudyOutput) -> Document:
    """Build the report. Raises InputError if the log has no job to replay, or none on the days
    asked for."""
    log, params, taken = study.log, study.params, study.taken
    replayed = taken.workload.jobs
    if not replayed:
        raise InputError(f"{log.path}: {_explain_no_jobs(taken)}")
    check_window(replayed, asked)
    made = _build_tables(study, asked, output)
    if made:
        told = _evaluate_tables(study, made, output)
    else:
        told = build_empty_document(compute_window(replayed, asked).days)
    return told | {
        "trace": log.name,
        "cluster": params.name,
        "accrue_always": params.accrue_always,
        "overlap_price": study.overlap_price,
        "rows": _count_rows(taken),
    }


def _count_rows(taken: replay.Replay) -> Document:
    """Count the log's rows by what became of them. Only numbers are kept: jobs are personal."""
    return {
        "read": taken.read,
        "replayed": len(taken.workload),
        "refused": taken.refused,
        "skipped": taken.skipped,
        "assumed": taken.assumed,
    }


def _explain_no_jobs(taken: replay.Replay) -> str:
    """Explain why a log has no job to replay."""
    if not taken.read:
        return "it holds no jobs"
    out = [*taken.refused.items(), *taken.skipped.items()]
    why = ", ".join(f"{reason} ({rows})" for reason, rows in out)
    return f"not one of {taken.read} rows can be replayed: {why}"


def _build_tables(study: ShadowStudy, asked: ReportOptions, output: StudyOutput) -> Tables:
    """Build a table for each pair that has start points and episodes."""
    replayed = study.taken.workload.jobs
    pairs = choose_pairs(replayed, study.params, asked)
    wanted = [pair for pair in pairs if len(pair.settings.start_points)]
    made: Tables = []
    for number, pair in enumerate(wanted, start=1):
        study.announce(number, len(wanted), pair.name)
        path = study.folder / f"pair-{number}.npz"
        try:
            plan = build_plan(
                study.log.path,
                study.params,
                replayed,
                pair.settings,
                timezone=study.log.timezone or "",
            )
            table = study.make_table(plan, path).table
        except InputError as error:
            output.warn(f"{pair.name}: {error}")
            continue
        made.append((pair, path, table))
    return made


def _evaluate_tables(study: ShadowStudy, made: Tables, output: StudyOutput) -> Document:
    request = EvaluationRequest(
        paths=[path for _, path, _ in made],
        tables=[table for _, _, table in made],
        names=JUDGED,
        models=study.models,
        overlap_price=study.overlap_price,
    )
    judged = run_evaluation(request, output)
    pairs = [pair for pair, _, _ in made]
    waits = compare_waits(study.taken, study.params, _find_first_days(pairs))
    return build_document(pairs, judged, study.overlap_price, waits)


def _find_first_days(pairs: Iterable[HandoverPair]) -> dict[str, int]:
    """Return the first start point of each partition's pairs."""
    since: dict[str, int] = {}
    for pair in pairs:
        named, begin = pair.settings.partition, pair.settings.since
        since[named] = min(begin, since.get(named, begin))
    return since
