"""Makes the shadow report of a log: chooses pairs, makes a table of each, judges policies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import InputError
from mirage.history.workloads import replay
from mirage.judging.policy_runner import OWN_PLAN
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.block_executor import BlockExecutor
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
    trace_replay: replay.Replay
    """The log as it is replayed on `params`."""
    folder: Path
    """The folder of the tables."""
    models: Path
    overlap_price: float
    make_table: Callable[[TablePlan, Path], BuiltTable]
    executor: BlockExecutor
    """Who asks the twin."""
    announce: Callable[[int, int, str], None]
    """Called before each table is made, with its number, the number of tables, and the name of
    its pair."""


def build_report(study: ShadowStudy, options: ReportOptions, output: StudyOutput) -> Document:
    """Build the report. Raises InputError if the log has no job to replay, or none on the days
    asked for."""
    log, params, trace_replay = study.log, study.params, study.trace_replay
    jobs = trace_replay.workload.jobs
    if not jobs:
        raise InputError(f"{log.path}: {_explain_no_jobs(trace_replay)}")
    check_window(jobs, options)
    tables = _build_tables(study, options, output)
    if tables:
        document = _evaluate_tables(study, tables, output)
    else:
        document = build_empty_document(compute_window(jobs, options).days)
    return document | {
        "trace": log.name,
        "cluster": params.name,
        "accrue_always": params.accrue_always,
        "overlap_price": study.overlap_price,
        "rows": _count_rows(trace_replay),
    }


def _count_rows(trace_replay: replay.Replay) -> Document:
    """Count the log's rows: replayed, refused, skipped, assumed. Jobs are personal data, so the
    report has only numbers."""
    return {
        "read": trace_replay.read,
        "replayed": len(trace_replay.workload),
        "refused": trace_replay.refused,
        "skipped": trace_replay.skipped,
        "assumed": trace_replay.assumed,
    }


def _explain_no_jobs(trace_replay: replay.Replay) -> str:
    """Explain why a log has no job to replay."""
    if not trace_replay.read:
        return "it holds no jobs"
    left_out = [*trace_replay.refused.items(), *trace_replay.skipped.items()]
    reasons = ", ".join(f"{reason} ({rows})" for reason, rows in left_out)
    return f"not one of {trace_replay.read} rows can be replayed: {reasons}"


def _build_tables(study: ShadowStudy, options: ReportOptions, output: StudyOutput) -> Tables:
    """Build a table for each pair that has start points and episodes."""
    jobs = study.trace_replay.workload.jobs
    pairs = choose_pairs(jobs, study.params, options)
    pairs_to_build = [pair for pair in pairs if len(pair.settings.start_points)]
    tables: Tables = []
    for number, pair in enumerate(pairs_to_build, start=1):
        study.announce(number, len(pairs_to_build), pair.name)
        path = study.folder / f"pair-{number}.npz"
        try:
            plan = build_plan(
                study.log.path,
                study.params,
                jobs,
                pair.settings,
                timezone=study.log.timezone or "",
            )
            table = study.make_table(plan, path).table
        except InputError as error:
            output.warn(f"{pair.name}: {error}")
            continue
        tables.append((pair, path, table))
    return tables


def _evaluate_tables(study: ShadowStudy, tables: Tables, output: StudyOutput) -> Document:
    request = EvaluationRequest(
        paths=[path for _, path, _ in tables],
        tables=[table for _, _, table in tables],
        names=JUDGED,
        models=study.models,
        overlap_price=study.overlap_price,
        executor=study.executor,
    )
    evaluation = run_evaluation(request, output)
    pairs = [pair for pair, _, _ in tables]
    waits = compare_waits(study.trace_replay, study.params, _find_first_days(pairs))
    return build_document(pairs, evaluation, study.overlap_price, waits)


def _find_first_days(pairs: Iterable[HandoverPair]) -> dict[str, int]:
    """Return the first start point of each partition's pairs."""
    since: dict[str, int] = {}
    for pair in pairs:
        partition, begin = pair.settings.partition, pair.settings.since
        since[partition] = min(begin, since.get(partition, begin))
    return since
