"""Reads a recording of the real slurmctld: jobs as `scontrol show job` and sacct printed them.

Every job and array task has a number of its own, `number`: 1000 times Slurm's job id, plus one and
the task's index for a task. So the tasks of an array come after its id and before the next, as in
slurmctld's order, also those that have no job id yet.
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.domain.tres import parse_tres
from mirage.simulator.types import Dependency, DependencyKind, Reservation

_TERM = re.compile(r"(after\w*):(\d+)(?:\+(\d+))?")
_RANGE = re.compile(r"gpu(?:\[([\d,-]+)\]|(\d+))")
PER_JOB_ID = 1000
WAITING = "PENDING"
RUNNING = "RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of `scontrol -o show job`; of an array's waiting tasks, one for each."""

    number: int
    state: str
    user: str
    account: str
    partition: str
    qos: str
    nodes: int
    cpus: int
    """Per node, as memory and GPUs."""
    memory_mib: int
    gpus: int
    exclusive: bool
    limit_s: int
    nice: int
    priority: int
    submit: int
    eligible: int | None
    start: int | None
    """The planned start, for a job that waits."""
    end: int | None
    reason: str
    dependencies: tuple[Dependency, ...]
    any_dependency: bool
    node_list: tuple[int, ...]
    allocated: tuple[int, ...]
    planned_on: tuple[int, ...]
    array_id: int
    array_limit: int
    first_of_array: bool
    """Whether it is the task whose plan the line shows; true for jobs that are no array tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One line of sacct."""

    number: int
    submit: int
    start: int | None
    end: int | None
    state: str
    by_backfill: bool
    cpus: int
    """On all its nodes; 0: never started."""


class Snapshot:
    """The state of slurmctld at one instant, `now`."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.cycle: int | None = raw.get("cycle")
        """The instant of the plan that the snapshot shows; None: the queue did not stand still."""
        self.planned_at = last_cycle(raw["sdiag"])
        self.jobs = [job for line in raw["jobs"].splitlines() for job in _jobs(_fields(line))]
        self.now = max([int(raw["before"]), *self._earliest_instants(), self.cycle or 0])
        self.usage = dict(_usage(raw["sshare"]))
        """Decayed CPU seconds of each (account, user)."""

    def _earliest_instants(self) -> Iterator[int]:
        """Yield instants before which the snapshot cannot have been taken."""
        for job in self.jobs:
            yield job.submit
            if job.state != WAITING and job.start is not None:
                yield job.start
            if job.state not in (WAITING, RUNNING, "COMPLETING") and job.end is not None:
                yield job.end


class Recording:
    """A file of `tests.support.fidelity.record`."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            self.raw: dict[str, Any] = json.load(file)
        self.kind: str = self.raw["kind"]
        self.speed: float = self.raw["speed"]
        self.snapshots = [Snapshot(raw) for raw in self.raw["snapshots"]]

    @cached_property
    def config(self) -> dict[str, str]:
        """`scontrol show config`."""
        lines = self.raw["site"]["config"].splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        return {key.strip(): value.strip() for key, _, value in pairs}

    @cached_property
    def scheduler(self) -> dict[str, int]:
        """SchedulerParameters that are numbers."""
        terms = (term.partition("=") for term in self.config["SchedulerParameters"].split(","))
        return {key: int(value) for key, _, value in terms if value.isdigit()}

    @cached_property
    def reservations(self) -> tuple[Reservation, ...]:
        """The reservations of nodes; older recordings have none."""
        lines = self.raw["site"].get("reservations", "").splitlines()
        reservations = [fields for line in lines if "StartTime" in (fields := _fields(line))]
        return tuple(
            Reservation(
                name=fields["ReservationName"],
                start=int(fields["StartTime"]),
                end=int(fields["EndTime"]),
                nodes=node_numbers(fields["Nodes"]),
            )
            for fields in reservations
        )

    def qos_limit(self, name: str) -> int:
        """MaxJobsPU of a QOS; 0: none."""
        rows = (line.split("|") for line in self.raw["site"]["qos"].splitlines()[1:])
        return next(int(row[2] or 0) for row in rows if row[0] == name)

    @cached_property
    def released(self) -> set[int]:
        """The numbers of the jobs that were submitted with a planned release."""
        ids = self.raw["job_ids"]
        return {
            PER_JOB_ID * ids[str(index)]
            for index, fields in enumerate(self.raw["submissions"])
            if fields.get("release_min") and str(index) in ids
        }

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        lines = self.raw["history"].splitlines()
        keys = lines[0].split("|")
        rows = (dict(zip(keys, line.split("|"), strict=True)) for line in lines[1:])
        return {number: _outcome(number, row) for row in rows for number in _sacct_numbers(row)}


def last_cycle(sdiag: str) -> int | None:
    """Return the instant of the last backfill cycle that has ended; None: there was none."""
    line = next(line for line in sdiag.splitlines() if "Last cycle when" in line)
    _, _, instant = line.rpartition("(")
    return int(instant.rstrip(")")) if "(" in line else None


def _fields(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def _jobs(fields: Mapping[str, str]) -> Iterator[Job]:
    array_id = int(fields.get("ArrayJobId", 0))
    tasks = _tasks(fields["ArrayTaskId"]) if array_id else [-1]
    for position, task in enumerate(tasks):
        number = (array_id or int(fields["JobId"])) * PER_JOB_ID + task + 1
        yield _build_job(fields, number, array_id, first=position == 0)


def _is_exclusive(fields: Mapping[str, str]) -> bool:
    """Return whether the job has its nodes alone.

    A release that shows Exclusive shows OverSubscribe=NO for every job.
    """
    value = fields.get("Exclusive")
    return fields["OverSubscribe"] == "NO" if value is None else value == "NODE"


def _build_job(fields: Mapping[str, str], number: int, array_id: int, *, first: bool) -> Job:
    tres = parse_tres(fields["TRES"] if "TRES" in fields else fields["ReqTRES"])
    nodes = tres["node"]
    return Job(
        number=number,
        state=fields["JobState"],
        user=fields["UserId"].partition("(")[0],
        account=fields["Account"],
        partition=fields["Partition"],
        qos=fields["QOS"],
        nodes=nodes,
        cpus=tres["cpu"] // nodes,
        memory_mib=tres["mem"] // nodes,
        gpus=tres.get("gres/gpu", 0) // nodes,
        exclusive=_is_exclusive(fields),
        limit_s=parse_time_limit(fields["TimeLimit"]) or UNLIMITED,
        nice=int(fields["Nice"]),
        priority=int(fields["Priority"]),
        submit=int(fields["SubmitTime"]),
        eligible=_instant(fields["EligibleTime"]),
        start=_instant(fields["StartTime"]),
        end=_instant(fields["EndTime"]),
        reason=fields["Reason"],
        dependencies=_dependencies(fields["Dependency"]),
        any_dependency="?" in fields["Dependency"],
        node_list=node_numbers(fields["ReqNodeList"]),
        allocated=node_numbers(fields["NodeList"]),
        planned_on=node_numbers(fields.get("SchedNodeList", "")),
        array_id=array_id,
        array_limit=int(fields.get("ArrayTaskThrottle", 0)),
        first_of_array=first,
    )


def _dependencies(text: str) -> tuple[Dependency, ...]:
    return tuple(
        Dependency(DependencyKind(kind), int(job_id) * PER_JOB_ID, 60 * int(minutes or 0))
        for kind, job_id, minutes in _TERM.findall(text)
    )


def _instant(text: str) -> int | None:
    return int(text) if text.isdigit() and text != "0" else None


def _tasks(text: str) -> list[int]:
    """Read `0-5,8%3`."""
    return list(_numbers(text.partition("%")[0]))


def node_numbers(text: str) -> tuple[int, ...]:
    """Read `gpu[01-03,05]`: numbers from 0."""
    return tuple(
        number - 1 for match in _RANGE.finditer(text) for number in _numbers(match[1] or match[2])
    )


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _usage(sshare: str) -> Iterator[tuple[tuple[str, str], float]]:
    for line in sshare.splitlines()[1:]:
        account, user, _, _, usage, *_ = line.split("|")
        if user:
            yield (account.strip(), user), float(usage)


def _sacct_numbers(row: Mapping[str, str]) -> Iterator[int]:
    job_id, _, task = row["JobID"].partition("_")
    if not task:
        yield int(job_id) * PER_JOB_ID
    elif task.startswith("["):
        for index in _tasks(task.strip("[]")):
            yield int(job_id) * PER_JOB_ID + index + 1
    else:
        yield int(job_id) * PER_JOB_ID + int(task) + 1


def _outcome(number: int, row: Mapping[str, str]) -> Outcome:
    return Outcome(
        number=number,
        submit=int(row["Submit"]),
        start=_instant(row["Start"]),
        end=_instant(row["End"]),
        state=row["State"].partition(" ")[0],
        by_backfill="SchedBackfill" in row["Flags"],
        cpus=parse_tres(row["AllocTRES"]).get("cpu", 0),
    )
