"""slurmrestd's `/slurmdb/<version>/jobs` and `/job/<id>`: what accounting remembers.

Records carry user names and no uids. A comment is there once the job has ended, as in sacct.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import MalformedText
from mirage.slurm.rest.envelope import (
    Dialect,
    Payload,
    each,
    instant,
    job_named,
    mapping,
    needed,
    number,
    sequence,
    text,
    time_limit_s,
)
from mirage.slurm.rest.queue import state_of
from mirage.slurm.text import hostlist
from mirage.slurm.text.delimited_rows import text as unless_none
from mirage.slurm.text.hetjob import merge, whole
from mirage.slurm.text.unread_rows import Unread, UnreadRow, strict

NOTHING_FOUND = 9003
"""The error of an answer without records: no error to us (ESLURM_REST_EMPTY_RESULT)."""

_WHOLLY = ("skip_steps", "show_duplicates", "disable_truncate_usage_time")
"""Asked for where the server's document has them: no steps; every run of a requeued job; and the
times as they are, which the other two would cut to the window (24.11, 26.05)."""


def in_window(since: int, until: int) -> list[tuple[str, str]]:
    """The query for jobs that were in any state in [since, until)."""
    return [("start_time", f"uts{since}"), ("end_time", f"uts{until}")]


def by_id(job_ids: Sequence[JobId], dialect: Dialect) -> list[tuple[str, str]]:
    """The query for these jobs: one list in v0.0.38, a parameter each later on."""
    if dialect.triples:
        return [("step", str(job_id)) for job_id in job_ids]
    return [("step", ",".join(map(str, job_ids)))]


def wholly(dialect: Dialect) -> list[tuple[str, str]]:
    """What every query has beside that."""
    return [(name, "true") for name in _WHOLLY if name in dialect.record_queries]


def records(answer: Any, unread: Unread | None = None) -> list[Job]:
    """The records, each (job id, submit) once, het components merged into their leaders.

    Those that do not read are added to `unread`; without it, or where they are many, MalformedText
    is raised.
    """
    left_out = strict() if unread is None else unread
    told = each(answer, "jobs")
    pairs = left_out.read(told, _record, _named)
    left_out.check(len(told))
    # A record may be listed twice when it changes while slurmdbd reads; the later one is newer.
    found = {(job.job_id, job.submit): (job, leader) for job, leader in pairs}
    return merge(whole(list(found.values()), left_out))


def _record(value: Any) -> tuple[Job, JobId | None]:
    payload = mapping(value)
    return _read(payload), _leader(payload)


def _named(value: Any) -> UnreadRow:
    """The record by its job; a component by its leader, which lacks something without it."""
    found = job_named("record", value)
    try:
        leader = _leader(mapping(value))
    except MalformedText:
        leader = None
    return replace(found, job_id=leader) if leader else found


def _read(payload: Payload) -> Job:
    times, told = mapping(payload.get("time")), mapping(payload.get("state"))
    state = state_of(told.get("current"))
    node_list = unless_none(text(payload.get("nodes")))
    reason = text(told.get("reason"))
    start = _start(times, state, node_list)
    requested, allocated = _tres(payload, "requested"), _tres(payload, "allocated")
    return Job(
        job_id=JobId(needed(payload, "job_id")),
        submit=needed(times, "submission"),
        state=state,
        user=text(payload.get("user")),
        account=text(payload.get("account")),
        partition=text(payload.get("partition")),
        qos=text(payload.get("qos")),
        name=text(payload.get("name")),
        reason="" if reason == "None" else reason,
        priority=number(payload.get("priority")),
        eligible=instant(times.get("eligible")),
        start=start,
        end=None if state.is_waiting or state.is_running else instant(times.get("end")),
        time_limit_s=_limit_s(times.get("limit"), start),
        nodes=_nodes(payload, allocated, requested, node_list),
        cpus=allocated.get("cpu", 0) or requested.get("cpu", 0),
        gpus=tres.count_gpus(allocated) or tres.count_gpus(requested),
        memory_mib=(requested | allocated).get("mem", 0),
        exit_code=_exit_code(mapping(payload.get("exit_code")), state),
        node_list=node_list,
        comment=text(mapping(payload.get("comment")).get("job")),
        array=_many_tasks(mapping(payload.get("array"))),
        submit_line=text(payload.get("submit_line")),
    )


def _nodes(
    payload: Payload, allocated: dict[str, int], requested: dict[str, int], node_list: str
) -> int:
    found = (
        number(payload.get("allocation_nodes"))
        or allocated.get("node", 0)
        or len(hostlist.expand(node_list))
        or requested.get("node", 0)
    )
    if not found and "allocation_nodes" in payload:
        raise MalformedText("no node count")
    return found or 1


def _start(times: Payload, state: JobState, node_list: str) -> int | None:
    """The start of a job that ran; one cancelled while it waited may have its end there."""
    if state.is_waiting or (state.has_ended and not node_list):
        return None
    return instant(times.get("start"))


def _tres(payload: Payload, which: str) -> dict[str, int]:
    """By name as sacct writes it: cpu, mem, node, gres/gpu."""
    found: dict[str, int] = {}
    for one in sequence(mapping(payload.get("tres")).get(which)):
        kind, name = text(mapping(one).get("type")), text(mapping(one).get("name"))
        count = number(mapping(one).get("count"))
        if count is not None:
            found[f"{kind}/{name}" if name else kind] = count
    return found


def _limit_s(value: Any, start: int | None) -> int | None:
    """v0.0.38 writes null for no limit, and before the start for the partition's as well."""
    return None if value is None and start is None else time_limit_s(value)


def _exit_code(payload: Payload, state: JobState) -> str:
    """`<code>:<signal>`, as sacct writes it; empty where it is not known.

    22.05.8 says 0 of a job that exited with 7, so a plain 0, which is v0.0.38's, is believed of a
    job that went well alone.
    """
    signal = mapping(payload.get("signal"))
    # `signal_id` until v0.0.39, `id` afterwards.
    ended_by = number(signal.get("id", signal.get("signal_id"))) or 0
    told = payload.get("return_code")
    code = number(told) or 0
    believed = code or ended_by or isinstance(told, Mapping) or state is JobState.COMPLETED
    return f"{code}:{ended_by}" if believed or not state.has_ended else ""


def _many_tasks(array: Payload) -> bool:
    """Whether the record stands for tasks that have no record of their own yet."""
    return bool(text(array.get("task"))) and number(array.get("task_id")) is None


def _leader(payload: Payload) -> JobId | None:
    leader = number(mapping(payload.get("het")).get("job_id"))
    return JobId(leader) if leader else None
