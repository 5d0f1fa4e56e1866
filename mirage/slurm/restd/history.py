"""slurmrestd's `/slurmdb/<version>/jobs` and `/job/<id>`: what accounting remembers.

Records carry user names and no uids. A comment is there once the job has ended, as in sacct.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState, has_not_run, place_instants
from mirage.errors import MalformedText
from mirage.slurm.restd.envelope import (
    Dialect,
    Payload,
    expect_list,
    expect_mapping,
    name_unread_job,
    parse_instant,
    parse_limit_s,
    parse_number,
    parse_text,
    require_items,
    require_number,
)
from mirage.slurm.restd.queue import parse_flagged_state
from mirage.slurm.text import hostlist
from mirage.slurm.text.delimited_rows import parse_text as blank_if_null
from mirage.slurm.text.hetjob import drop_incomplete_jobs, merge_components
from mirage.slurm.text.unread_rows import Unread, make_strict_unread

_Counts = Mapping[str, int | None]
"""TRES by the name that sacct writes: cpu, mem, node, gres/gpu. None: not set, or too many for any
job (a job that is held may ask for any number)."""

NOTHING_FOUND = 9003
"""The error of an answer without records, which Mirage ignores (ESLURM_REST_EMPTY_RESULT)."""

_COMPLETENESS_PARAMETERS = ("skip_steps", "show_duplicates", "disable_truncate_usage_time")
"""Parameters that are set to "true" if the server's OpenAPI document has them.

They ask for no steps, for every run of a requeued job, and for full times. Without the last one
24.11 and 26.05 cut the times to the window."""


def build_window_query(since: int, until: int) -> list[tuple[str, str]]:
    """Build the query for jobs that were in any state in [since, until)."""
    return [("start_time", f"uts{since}"), ("end_time", f"uts{until}")]


def build_id_query(job_ids: Sequence[JobId], dialect: Dialect) -> list[tuple[str, str]]:
    """Build the query for these jobs: one list in v0.0.38, one parameter for each job later."""
    if dialect.has_triples:
        return [("step", str(job_id)) for job_id in job_ids]
    return [("step", ",".join(map(str, job_ids)))]


def build_completeness_query(dialect: Dialect) -> list[tuple[str, str]]:
    """Build the parameters that every query has, beside those for its window or jobs."""
    return [(name, "true") for name in _COMPLETENESS_PARAMETERS if name in dialect.record_queries]


def parse_records(answer: Any, unread: Unread | None = None) -> list[Job]:
    """Parse the records, each (job id, submit) once, with het components merged into their leaders.

    Records that cannot be parsed are added to `unread`. Raises MalformedText if there is no
    `unread`, or if such records are too many.
    """
    rejects = make_strict_unread() if unread is None else unread
    records = require_items(answer, "jobs")
    pairs = rejects.parse_rows(
        records, _parse_component, partial(name_unread_job, "record", _find_leader)
    )
    rejects.check_share(job.user or None for job, _ in pairs)
    # A record may be listed twice when it changes while slurmdbd reads; the later one is newer.
    newest = {(job.job_id, job.submit): (job, leader) for job, leader in pairs}
    jobs = merge_components(drop_incomplete_jobs(list(newest.values()), rejects))
    rejects.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(value: Any) -> tuple[Job, JobId | None]:
    payload = expect_mapping(value)
    return _parse_job(payload), _find_leader(payload)


def _parse_job(payload: Payload) -> Job:
    times, state_payload = expect_mapping(payload.get("time")), expect_mapping(payload.get("state"))
    state = parse_flagged_state(state_payload.get("current"))
    node_list = blank_if_null(parse_text(payload.get("nodes")))
    reason = parse_text(state_payload.get("reason"))
    start, end = _find_times(times, state, parse_text(payload.get("nodes")))
    requested, allocated = _parse_tres(payload, "requested"), _parse_tres(payload, "allocated")
    return Job(
        job_id=JobId(require_number(payload, "job_id")),
        submit=require_number(times, "submission"),
        state=state,
        user=parse_text(payload.get("user")),
        account=parse_text(payload.get("account")),
        partition=parse_text(payload.get("partition")),
        qos=parse_text(payload.get("qos")),
        name=parse_text(payload.get("name")),
        reason="" if reason == "None" else reason,
        priority=parse_number(payload.get("priority")),
        eligible=parse_instant(times.get("eligible")),
        **place_instants(state, start, end, node_list),
        time_limit_s=_find_limit_s(times.get("limit"), start),
        nodes=_count_nodes(payload, allocated, requested, node_list),
        cpus=allocated.get("cpu") or requested.get("cpu") or 0,
        gpus=_count_job_gpus(allocated, requested),
        memory_mib=allocated.get("mem") or requested.get("mem") or 0,
        exit_code=_format_exit_code(expect_mapping(payload.get("exit_code")), state),
        node_list=node_list,
        comment=parse_text(expect_mapping(payload.get("comment")).get("job")),
        array=_has_pending_tasks(expect_mapping(payload.get("array"))),
        submit_line=parse_text(payload.get("submit_line")),
    )


def _count_nodes(payload: Payload, allocated: _Counts, requested: _Counts, node_list: str) -> int:
    nodes = (
        parse_number(payload.get("allocation_nodes"))
        or allocated.get("node")
        or len(hostlist.expand_hostlist(node_list))
        or requested.get("node")
    )
    if not nodes and "allocation_nodes" in payload:
        raise MalformedText("no node count")
    return nodes or 1


def _find_times(times: Payload, state: JobState, nodes: str) -> tuple[int | None, int | None]:
    """Return start and end, by the rules for sacct: a job that waits, or did not run, has no
    start, and a running job no end."""
    if state.is_waiting:
        return None, None
    start = parse_instant(times.get("start"))
    if state.is_running:
        return start, None
    end = parse_instant(times.get("end"))
    node_list = blank_if_null(nodes)
    has_never_run = state.has_ended and has_not_run(
        state, start, end, node_list, unassigned=bool(nodes) and not node_list
    )
    return None if has_never_run else start, end


def _parse_tres(payload: Payload, key: str) -> _Counts:
    amounts: dict[str, int | None] = {}
    for item in expect_list(expect_mapping(payload.get("tres")).get(key)):
        kind, name = (
            parse_text(expect_mapping(item).get("type")),
            parse_text(expect_mapping(item).get("name")),
        )
        amounts[f"{kind}/{name}" if name else kind] = parse_number(
            expect_mapping(item).get("count")
        )
    return amounts


def _count_job_gpus(*counts: _Counts) -> int | None:
    """Count the GPUs. The first list that names GPUs decides; None: it names GPUs whose number is
    not set."""
    for amounts in counts:
        set_amounts = {name: count for name, count in amounts.items() if count is not None}
        if tres.names_gpus(amounts.keys() - set_amounts):
            return None
        if gpus := tres.count_gpus(set_amounts):
            return gpus
    return 0


def _find_limit_s(value: Any, start: int | None) -> int | None:
    """Parse a time limit. v0.0.38 writes null for no limit, and before the start also for the
    partition's limit."""
    return None if value is None and start is None else parse_limit_s(value)


def _format_exit_code(payload: Payload, state: JobState) -> str:
    """Format `<code>:<signal>`, as sacct writes it; empty if it is not known.

    22.05.8 reports 0 for a job that exited with 7. So a plain 0, the form of v0.0.38, is believed
    only for a completed job.
    """
    signal = expect_mapping(payload.get("signal"))
    # `signal_id` until v0.0.39, `id` afterwards.
    signal_number = parse_number(signal.get("id", signal.get("signal_id"))) or 0
    return_code = payload.get("return_code")
    code = parse_number(return_code) or 0
    is_believed = (
        code or signal_number or isinstance(return_code, Mapping) or state is JobState.COMPLETED
    )
    return f"{code}:{signal_number}" if is_believed or not state.has_ended else ""


def _has_pending_tasks(array: Payload) -> bool:
    """Return whether the record stands for array tasks without a record of their own yet."""
    return bool(parse_text(array.get("task"))) and parse_number(array.get("task_id")) is None


def _find_leader(payload: Payload) -> JobId | None:
    leader = parse_number(expect_mapping(payload.get("het")).get("job_id"))
    return JobId(leader) if leader else None
