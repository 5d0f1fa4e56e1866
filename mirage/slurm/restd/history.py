"""slurmrestd's `/slurmdb/<version>/jobs` and `/job/<id>`: what accounting remembers.

Records carry user names and no uids. A comment is there once the job has ended, as in sacct.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState, has_not_run
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
from mirage.slurm.text.delimited_rows import parse_text as unless_none
from mirage.slurm.text.hetjob import drop_incomplete_jobs, merge_components
from mirage.slurm.text.unread_rows import Unread, make_strict_unread

_Counts = Mapping[str, int | None]
"""TRES by the name that sacct writes: cpu, mem, node, gres/gpu. None: not set, or too many for any
job (a job that is held may ask for any number)."""

NOTHING_FOUND = 9003
"""The error of an answer without records, which Mirage ignores (ESLURM_REST_EMPTY_RESULT)."""

_WHOLLY = ("skip_steps", "show_duplicates", "disable_truncate_usage_time")
"""Parameters that are set if the server's document has them: no steps, every run of a requeued job,
and full times, which would otherwise be cut to the window (24.11, 26.05)."""


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
    return [(name, "true") for name in _WHOLLY if name in dialect.record_queries]


def parse_records(answer: Any, unread: Unread | None = None) -> list[Job]:
    """The records, each (job id, submit) once, het components merged into their leaders.

    Those that do not read are added to `unread`; without it, or where they are many, MalformedText
    is raised.
    """
    left_out = make_strict_unread() if unread is None else unread
    told = require_items(answer, "jobs")
    pairs = left_out.parse_rows(
        told, _parse_component, partial(name_unread_job, "record", _find_leader)
    )
    left_out.check_share(job.user or None for job, _ in pairs)
    # A record may be listed twice when it changes while slurmdbd reads; the later one is newer.
    found = {(job.job_id, job.submit): (job, leader) for job, leader in pairs}
    jobs = merge_components(drop_incomplete_jobs(list(found.values()), left_out))
    left_out.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def _parse_component(value: Any) -> tuple[Job, JobId | None]:
    payload = expect_mapping(value)
    return _parse_job(payload), _find_leader(payload)


def _parse_job(payload: Payload) -> Job:
    times, told = expect_mapping(payload.get("time")), expect_mapping(payload.get("state"))
    state = parse_flagged_state(told.get("current"))
    node_list = unless_none(parse_text(payload.get("nodes")))
    reason = parse_text(told.get("reason"))
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
        start=start,
        end=end,
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
    found = (
        parse_number(payload.get("allocation_nodes"))
        or allocated.get("node")
        or len(hostlist.expand_hostlist(node_list))
        or requested.get("node")
    )
    if not found and "allocation_nodes" in payload:
        raise MalformedText("no node count")
    return found or 1


def _find_times(times: Payload, state: JobState, nodes: str) -> tuple[int | None, int | None]:
    """Return start and end, as sacct's are read: a job that waits, or did not run, has no start."""
    if state.is_waiting:
        return None, None
    start = parse_instant(times.get("start"))
    if state.is_running:
        return start, None
    end = parse_instant(times.get("end"))
    named = unless_none(nodes)
    never = state.has_ended and has_not_run(
        state, start, end, named, unassigned=bool(nodes) and not named
    )
    return None if never else start, end


def _parse_tres(payload: Payload, which: str) -> _Counts:
    found: dict[str, int | None] = {}
    for one in expect_list(expect_mapping(payload.get("tres")).get(which)):
        kind, name = (
            parse_text(expect_mapping(one).get("type")),
            parse_text(expect_mapping(one).get("name")),
        )
        found[f"{kind}/{name}" if name else kind] = parse_number(expect_mapping(one).get("count"))
    return found


def _count_job_gpus(*counts: _Counts) -> int | None:
    """Count the GPUs. The first list that names any decides; None: a number of them is not set."""
    for named in counts:
        known = {name: count for name, count in named.items() if count is not None}
        if tres.names_gpus(named.keys() - known):
            return None
        if found := tres.count_gpus(known):
            return found
    return 0


def _find_limit_s(value: Any, start: int | None) -> int | None:
    """Parse a time limit. v0.0.38 writes null for no limit, and before the start also for the
    partition's limit."""
    return None if value is None and start is None else parse_limit_s(value)


def _format_exit_code(payload: Payload, state: JobState) -> str:
    """`<code>:<signal>`, as sacct writes it; empty where it is not known.

    22.05.8 says 0 of a job that exited with 7, so a plain 0, which is v0.0.38's, is believed of a
    job that went well alone.
    """
    signal = expect_mapping(payload.get("signal"))
    # `signal_id` until v0.0.39, `id` afterwards.
    ended_by = parse_number(signal.get("id", signal.get("signal_id"))) or 0
    told = payload.get("return_code")
    code = parse_number(told) or 0
    believed = code or ended_by or isinstance(told, Mapping) or state is JobState.COMPLETED
    return f"{code}:{ended_by}" if believed or not state.has_ended else ""


def _has_pending_tasks(array: Payload) -> bool:
    """Return whether the record stands for array tasks without a record of their own yet."""
    return bool(parse_text(array.get("task"))) and parse_number(array.get("task_id")) is None


def _find_leader(payload: Payload) -> JobId | None:
    leader = parse_number(expect_mapping(payload.get("het")).get("job_id"))
    return JobId(leader) if leader else None
