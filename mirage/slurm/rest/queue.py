"""slurmrestd's `/slurm/<version>/jobs`: the queue.

Many times as long as squeue's text.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.slurm.rest.envelope import (
    Payload,
    each,
    instant,
    job_named,
    listed,
    mapping,
    needed,
    number,
    sequence,
    text,
    time_limit_s,
    words,
)
from mirage.slurm.text.delimited_rows import in_range, job_state
from mirage.slurm.text.forged_answers import owners, refuse_two_owners
from mirage.slurm.text.gres import gpu_count
from mirage.slurm.text.hetjob import merge, whole
from mirage.slurm.text.holds import Shown
from mirage.slurm.text.unread_rows import Unread, UnreadRow, strict

_ASKED = "required_nodes"
_FLAGS = (
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "EXPEDITING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
)
"""Words that squeue prints instead of the state they come with, in its order."""


def parse(answer: Any, taken_at: int, unread: Unread | None = None) -> Queue:
    """The queue. Records that do not read are added to `unread`; without it, or where they are
    many, MalformedText is raised."""
    left_out = strict() if unread is None else unread
    return Queue.from_jobs(taken_at, jobs(answer, left_out), unread=left_out.job_ids)


def jobs(answer: Any, unread: Unread | None = None) -> list[Job]:
    """The jobs in slurmctld's order, components of het jobs merged into their leaders.

    JSON parts what users write by itself. Raises ForgedAnswer all the same where a job is shown as
    two users' own. `unread` as in `parse`.
    """
    left_out = strict() if unread is None else unread
    told = each(answer, "jobs")
    found = left_out.read(told, _job, _named)
    refuse_two_owners(chain(owners(found), left_out.owners()))
    left_out.check_queue(len(told))
    return merge(whole(found, left_out))


def _named(value: Any) -> UnreadRow:
    """The record by its job; a component by its leader, which lacks something without it."""
    found = job_named("job", value)
    try:
        leader = _leader(mapping(value))
    except MalformedText:
        leader = None
    return replace(found, job_id=leader) if leader else found


def asked_nodes(answer: Any) -> str:
    """The nodes that a job asks for by name, as a host list; empty where any will do.

    Of a het job, those of all its components.
    """
    return ",".join(filter(None, map(_asked_nodes, listed(answer, "jobs"))))


def hold(answer: Any) -> list[Shown]:
    """What holds a job; of a het job, all its components."""
    return [
        Shown(waits=job.state.is_waiting, reason=job.reason, priority=job.priority)
        for job in map(_read, listed(answer, "jobs"))
    ]


def _asked_nodes(payload: Payload) -> str:
    """Not telling is no answer: a user's list would be lost."""
    if _ASKED not in payload:
        raise MalformedText(f"{_ASKED!r} is not among a job's fields")
    value = payload[_ASKED]
    return value if isinstance(value, str) else ",".join(map(text, sequence(value)))


def state_of(value: Any) -> JobState:
    """A state, as one word or as the list of a state and its flags."""
    found = words(value)
    flag = next((flag for flag in _FLAGS if flag in found), None)
    return job_state(flag or (found[0] if found else ""))


def _job(value: Any) -> tuple[Job, JobId | None]:
    payload = mapping(value)
    return _read(payload), _leader(payload)


def _read(payload: Payload) -> Job:
    state = state_of(payload.get("job_state"))
    # A job that squeue calls requeued waits again.
    state = JobState.PENDING if state is JobState.REQUEUED else state
    nodes = _nodes(payload)
    node_list = text(payload.get("nodes"))
    limit_s = time_limit_s(payload.get("time_limit"))
    return Job(
        job_id=JobId(needed(payload, "job_id")),
        submit=needed(payload, "submit_time"),
        state=state,
        user=text(payload.get("user_name")),
        uid=number(payload.get("user_id")),
        account=text(payload.get("account")),
        partition=text(payload.get("partition")),
        qos=text(payload.get("qos")),
        name=text(payload.get("name")),
        reason=_reason(payload),
        priority=number(payload.get("priority")),
        eligible=instant(payload.get("eligible_time")),
        # Slurm gives a job that ended without ever running its end as its start.
        start=instant(payload.get("start_time")) if node_list or not state.has_ended else None,
        end=None if _endless(state, limit_s) else instant(payload.get("end_time")),
        time_limit_s=limit_s,
        nodes=nodes,
        cpus=_cpus(payload),
        gpus=_gpus(payload, nodes),
        dependency=text(payload.get("dependency")),
        node_list=node_list,
        comment=text(payload.get("comment")),
        array=bool(text(payload.get("array_task_string"))),
    )


def _nodes(payload: Payload) -> int:
    """Those it has or asks for; 1 where the record has no such field at all."""
    found = number(payload.get("node_count", 1))
    return found or needed(tres.parse_tres(text(payload.get("tres_req_str"))), "node")


def _reason(payload: Payload) -> str:
    """As squeue prints it: Slurm's sentence, where it has one, goes before its word."""
    word = text(payload.get("state_description")) or text(payload.get("state_reason"))
    return "" if word == "None" else word


def _endless(state: JobState, limit_s: int | None) -> bool:
    """Whether its end is not known: slurmctld gives a job without a limit a year."""
    return state.is_waiting or (limit_s == UNLIMITED and not state.has_ended)


def _leader(payload: Payload) -> JobId | None:
    leader = number(payload.get("het_job_id"))
    return JobId(leader) if leader else None


def _cpus(payload: Payload) -> int:
    """v0.0.38 leaves them out where the number of tasks is not set."""
    told = number(payload.get("cpus"))
    if told is not None:
        return told
    counted = text(payload.get("tres_alloc_str")) or text(payload.get("tres_req_str"))
    return tres.parse_tres(counted).get("cpu", 0)


def _gpus(payload: Payload, nodes: int) -> int:
    """From TRES; from the request where the site does not account GPUs (AccountingStorageTRES)."""
    counted = tres.count_gpus(tres.parse_tres(text(payload.get("tres_alloc_str"))))
    per_node = gpu_count(text(payload.get("tres_per_node")))
    return in_range(counted or per_node * nodes or gpu_count(text(payload.get("tres_per_job"))))
