"""Adds the twin's forecasts to a table that lacks them: finds the table's trace and replays it."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from mirage.domain.ports import Policy
from mirage.errors import InputError
from mirage.history.workloads import replay
from mirage.history.workloads.load_scaling import scale_load
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.block_executor import BlockExecutor
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.table_plan import count_cores
from mirage.lab.tables.twin_tables import build_request, make_twin_table
from mirage.policies.registry import AUTO
from mirage.simulator.types import Params
from mirage.twin import table_forecasts


def ask_twin_if_needed(
    policies: Iterable[Policy],
    paths: Sequence[Path],
    tables: Sequence[EpisodeTable],
    output: StudyOutput,
    executor: BlockExecutor | None = None,
) -> None:
    """Ask the twin if one of the policies needs it.

    Raises InputError if that is impossible and a policy would be judged by its fall-back. For
    `auto`, which has other candidates, there is only a warning.
    """
    twin_policies = [policy for policy in policies if policy.needs.twin]
    if not twin_policies:
        return
    for path, table in zip(paths, tables, strict=True):
        try:
            add_twin_forecasts(path, table, output, executor)
        except InputError as error:
            if any(policy.name != AUTO for policy in twin_policies):
                raise
            output.warn(str(error))


def add_twin_forecasts(
    path: Path, table: EpisodeTable, output: StudyOutput, executor: BlockExecutor | None = None
) -> None:
    """Add the twin's forecasts to the table, and keep them in a file beside it.

    `executor`: who makes them. None: a process for each core.

    Raises InputError if the trace is missing or has changed.
    """
    if table.twins is not None:
        return
    trace = _find_trace(path, table)
    params = TypeAdapter(Params).validate_python(table.metadata.cluster)
    log = replay.load_replay(trace, params, timezone=table.metadata.timezone or None)
    jobs = scale_load(log.workload.jobs, table.metadata.load)
    with output.show_progress("asking the twin", len(table)) as on_handovers:
        table.twins = make_twin_table(
            build_request(table, params, jobs),
            table_forecasts.get_twin_path(path),
            executor or LocalProcesses(count_cores()),
            on_handovers,
        )


def _find_trace(path: Path, table: EpisodeTable) -> Path:
    trace = Path(table.metadata.source)
    if not table.metadata.source or not trace.is_file():
        raise InputError(
            f"{path}: the twin cannot be asked, since the trace {table.metadata.trace} is no "
            "longer where it was: make the table again with `mirage episodes --twin`"
        )
    if hashlib.sha256(trace.read_bytes()).hexdigest() != table.metadata.trace_sha256:
        raise InputError(
            f"{path}: the trace {trace} has changed since the table was made: make the table again "
            "with `mirage episodes --twin`"
        )
    return trace
