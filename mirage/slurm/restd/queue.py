"""slurmrestd's `/slurm/<version>/jobs`: the queue.

The answer is many times as long as squeue's text.
"""

from functools import partial
from itertools import chain
from typing import Any

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState, place_instants
from mirage.domain.snapshot import Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.slurm.restd.envelope import (
    Payload,
    expect_list,
    expect_mapping,
    name_unread_job,
    parse_instant,
    parse_limit_s,
    parse_number,
    parse_text,
    parse_words,
    require_items,
    require_number,
    require_objects,
)
from mirage.slurm.text.delimited_rows import parse_job_state
from mirage.slurm.text.forged_answers import iter_job_owners, refuse_two_owners
from mirage.slurm.text.gres import Request, count_job_gpus
from mirage.slurm.text.hetjob import drop_incomplete_jobs, merge_components
from mirage.slurm.text.holds import HoldState
from mirage.slurm.text.unread_rows import Unread, make_strict_unread

_REQUESTED_NODES = "required_nodes"
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
"""Flags that squeue prints instead of the state, in its order."""


def parse_queue(answer: Any, taken_at: int, unread: Unread | None = None) -> Queue:
    """Parse the queue. Unreadable records are added to `unread`.

    Raises MalformedText if `unread` is not given or if such records are many.
    """
    rejects = make_strict_unread() if unread is None else unread
    return Queue.from_jobs(taken_at, parse_jobs(answer, rejects), unread=rejects.job_ids)


def parse_jobs(answer: Any, unread: Unread | None = None) -> list[Job]:
    """Parse the jobs, in slurmctld's order, with components of het jobs merged into their leaders.

    Raises ForgedAnswer if the answer gives one job two owners. Users' texts cannot cause that here,
    since JSON escapes them. `unread` as in `parse_queue`.
    """
    rejects = make_strict_unread() if unread is None else unread
    records = require_items(answer, "jobs")
    components = rejects.parse_rows(
        records, _parse_component, partial(name_unread_job, "job", _find_leader)
    )
    refuse_two_owners(chain(iter_job_owners(components), rejects.iter_owners()))
    rejects.check_queue(job.uid for job, _ in components)
    jobs = merge_components(drop_incomplete_jobs(components, rejects))
    rejects.without_gpus += [job.job_id for job in jobs if job.gpus is None]
    return jobs


def parse_requested_nodes(answer: Any) -> str:
    """Return the nodes that a job asks for by name, as a host list; empty: any nodes.

    For a het job, these are the nodes of all its components.
    """
    return ",".join(filter(None, map(_read_requested_nodes, require_objects(answer, "jobs"))))


def parse_hold_states(answer: Any) -> list[HoldState]:
    """Parse what holds a job: one state, or one for each component of a het job."""
    return [
        HoldState(is_waiting=job.state.is_waiting, reason=job.reason, priority=job.priority)
        for job in map(_parse_job, require_objects(answer, "jobs"))
    ]


def _read_requested_nodes(payload: Payload) -> str:
    """Read the nodes that a job asks for, as a host list.

    Raises MalformedText if the answer lacks the field. Never take a missing field for "no nodes":
    the user's list would be lost at the next pin.
    """
    if _REQUESTED_NODES not in payload:
        raise MalformedText(f"{_REQUESTED_NODES!r} is not among a job's fields")
    value = payload[_REQUESTED_NODES]
    return value if isinstance(value, str) else ",".join(map(parse_text, expect_list(value)))


def parse_flagged_state(value: Any) -> JobState:
    """Parse a state, given as one word or as a list of a state and its flags."""
    words = parse_words(value)
    flag = next((flag for flag in _FLAGS if flag in words), None)
    return parse_job_state(flag or (words[0] if words else ""))


def _parse_component(value: Any) -> tuple[Job, JobId | None]:
    payload = expect_mapping(value)
    return _parse_job(payload), _find_leader(payload)


def _parse_job(payload: Payload) -> Job:
    state = parse_flagged_state(payload.get("job_state"))
    # A job that squeue calls requeued waits again.
    state = JobState.PENDING if state is JobState.REQUEUED else state
    nodes = _count_nodes(payload)
    node_list = parse_text(payload.get("nodes"))
    limit_s = parse_limit_s(payload.get("time_limit"))
    return Job(
        job_id=JobId(require_number(payload, "job_id")),
        submit=require_number(payload, "submit_time"),
        state=state,
        user=parse_text(payload.get("user_name")),
        uid=parse_number(payload.get("user_id")),
        account=parse_text(payload.get("account")),
        partition=parse_text(payload.get("partition")),
        qos=parse_text(payload.get("qos")),
        name=parse_text(payload.get("name")),
        reason=_find_reason(payload),
        priority=parse_number(payload.get("priority")),
        eligible=parse_instant(payload.get("eligible_time")),
        **place_instants(
            state,
            # For a job that ended without having run, Slurm shows its end as its start.
            parse_instant(payload.get("start_time")) if node_list or not state.has_ended else None,
            None if _has_open_end(state, limit_s) else parse_instant(payload.get("end_time")),
            node_list,
        ),
        time_limit_s=limit_s,
        nodes=nodes,
        cpus=_count_cpus(payload),
        gpus=_count_job_gpus(payload, nodes),
        dependency=parse_text(payload.get("dependency")),
        node_list=node_list,
        comment=parse_text(payload.get("comment")),
        array=bool(parse_text(payload.get("array_task_string"))),
    )


def _count_nodes(payload: Payload) -> int:
    """Return the number of nodes that the job has or asks for; 1 if the record has no such
    field."""
    nodes = parse_number(payload.get("node_count", 1))
    amounts, _ = tres.parse_readable_tres(parse_text(payload.get("tres_req_str")))
    return nodes or require_number(amounts, "node")


def _find_reason(payload: Payload) -> str:
    """Return the reason as squeue prints it: Slurm's sentence if there is one, otherwise its
    word."""
    word = parse_text(payload.get("state_description")) or parse_text(payload.get("state_reason"))
    return "" if word == "None" else word


def _has_open_end(state: JobState, limit_s: int | None) -> bool:
    """Return whether the job's end is unknown.

    Of a job without a time limit slurmctld shows an end that is a year ahead.
    """
    return state.is_waiting or (limit_s == UNLIMITED and not state.has_ended)


def _find_leader(payload: Payload) -> JobId | None:
    leader = parse_number(payload.get("het_job_id"))
    return JobId(leader) if leader else None


def _count_cpus(payload: Payload) -> int:
    """Return the number of CPUs. v0.0.38 leaves it out if the number of tasks is not set."""
    cpus = parse_number(payload.get("cpus"))
    if cpus is not None:
        return cpus
    amounts, _ = tres.parse_readable_tres(_read_tres(payload))
    return amounts.get("cpu", 0)


def _count_job_gpus(payload: Payload, nodes: int) -> int | None:
    sockets = parse_number(payload.get("sockets_per_node"))
    units = {
        "tres_per_job": 1,
        "tres_per_node": nodes,
        "tres_per_task": parse_number(payload.get("tasks")),
        "tres_per_socket": sockets and sockets * nodes,
    }
    requests = (
        Request(parse_text(payload.get(name)), unit_count) for name, unit_count in units.items()
    )
    details = map(parse_text, expect_list(payload.get("gres_detail")))
    return count_job_gpus(_read_tres(payload), requests, details)


def _read_tres(payload: Payload) -> str:
    """Return the TRES that the job has, or asks for if it has none yet, as squeue's tres-alloc
    does."""
    return parse_text(payload.get("tres_alloc_str")) or parse_text(payload.get("tres_req_str"))
