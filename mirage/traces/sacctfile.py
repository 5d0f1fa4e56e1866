"""Dumps of `sacct -P`: a header line, then rows separated by `|`.

Any columns in any order; JobIDRaw (or JobID), Submit and State must be among them. Times are epoch
seconds (SLURM_TIME_FORMAT=%s) or the local time that sacct prints by default. sacct does not escape
a `|` inside a name or a command line: such a row is put together where one way fits. A row broken
by a newline inside a command line is refused. Of a het job the leader is taken.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo

from mirage.domain import tres
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText, UnknownFormat
from mirage.traces.clock import Clock
from mirage.traces.row import (
    Outcome,
    Refused,
    RowRefused,
    RowSkipped,
    attempt,
    integer,
    state_of,
    understood,
)
from mirage.traces.text import Lines, outcomes

SEPARATOR = "|"

# Columns a user writes into, and may write a separator into; the likeliest first.
_FREE = ("submitline", "comment", "jobname", "admincomment", "systemcomment", "workdir")
_ABSENT = frozenset({"", "unknown", "none", "none assigned", "n/a", "(null)"})
_MINUTE_S = 60
_JOB_ID = re.compile(r"(?P<id>\d+)(?P<task>_\d+|_\[.*\])?(?:\+0)?")
_COMPONENT = re.compile(r"\d+\+[1-9]\d*")

Fields = Mapping[str, str]
"""One row, by column name in lower case."""


class SacctDump:
    """The header of a dump, and its rows."""

    def __init__(self, lines: Lines, zone: tzinfo | None = None) -> None:
        self._lines = lines
        self._clock = Clock(zone)
        header = [name.strip() for name in next(lines, (0, ""))[1].split(SEPARATOR)]
        # `sacct -p` ends every line with a separator.
        self._columns = [name.lower() for name in header]
        missing = [
            name
            for name, any_of in (
                ("JobIDRaw", {"jobidraw", "jobid"}),
                ("Submit", {"submit"}),
                ("State", {"state"}),
            )
            if any_of.isdisjoint(self._columns)
        ]
        if missing:
            raise UnknownFormat(
                f"{lines.path} is no sacct dump: among its columns ({', '.join(header[:20])}) "
                f"there is no {', '.join(missing)}"
            )

    def read(self) -> Iterator[tuple[int, Outcome]]:
        return outcomes(self._lines, self._job)

    def _job(self, line: str) -> Job:
        fields = line.split(SEPARATOR)
        extra = len(fields) - len(self._columns)
        if extra < 0:
            raise RowRefused(f"fewer than {len(self._columns)} fields")
        if extra == 0:
            return self._parsed(fields)
        return self._pieced_together(fields, extra)

    def _pieced_together(self, fields: list[str], extra: int) -> Job:
        """The job when one free column holds all the separators that are too many."""
        ways = []
        for at in [self._columns.index(name) for name in _FREE if name in self._columns]:
            whole = SEPARATOR.join(fields[at : at + extra + 1])
            outcome = attempt(self._parsed, [*fields[:at], whole, *fields[at + extra + 1 :]])
            if isinstance(outcome, Job) and outcome.state is not JobState.UNKNOWN:
                ways.append(outcome)
            elif isinstance(outcome, Refused) and outcome.skipped:
                raise RowSkipped(outcome.reason)
        if not ways:
            raise RowRefused("more fields than columns")
        if len({_without_free_text(job) for job in ways}) > 1:
            raise RowRefused("more fields than columns, which fit in several ways")
        return ways[0]

    def _parsed(self, fields: list[str]) -> Job:
        return _job(dict(zip(self._columns, fields, strict=True)), self._clock)


@dataclass(frozen=True, slots=True)
class _Times:
    submit: int
    eligible: int | None
    start: int | None
    end: int | None


def _job(row: Fields, clock: Clock) -> Job:
    job_id, array = _job_id(row)
    state = state_of(row["state"])
    times = _times(row, clock)
    allocated = understood(tres.parse_tres, _first(row, "alloctres"), "TRES")
    requested = understood(tres.parse_tres, _first(row, "reqtres"), "TRES")
    amounts = requested | allocated
    nodes = _count(row, "nodes", "nnodes", "allocnodes", "reqnodes") or amounts.get("node", 1)
    cpus = _count(row, "cpus", "ncpus", "alloccpus", "reqcpus") or amounts.get("cpu", 0)
    uid = _first(row, "uid")
    priority = _first(row, "priority")
    return Job(
        job_id=job_id,
        submit=times.submit,
        state=state,
        user=_first(row, "user"),
        uid=integer(uid, "uid") if uid else None,
        account=_first(row, "account"),
        partition=_first(row, "partition"),
        qos=_first(row, "qos"),
        name=row.get("jobname", ""),
        reason=_first(row, "reason"),
        priority=integer(priority, "priority") if priority else None,
        eligible=times.eligible,
        start=times.start,
        end=times.end,
        time_limit_s=_time_limit_s(row),
        nodes=nodes,
        cpus=cpus,
        gpus=tres.gpus(allocated) or tres.gpus(requested),
        memory_mib=amounts.get("mem", 0) or _asked_mib(_first(row, "reqmem"), nodes, cpus),
        exit_code=_first(row, "exitcode"),
        node_list=_first(row, "nodelist"),
        comment=row.get("comment", ""),
        array=array,
        submit_line=row.get("submitline", ""),
    )


def _job_id(row: Fields) -> tuple[JobId, bool]:
    raw, shown = row.get("jobidraw", "").strip(), row.get("jobid", "").strip()
    given = raw or shown
    if not given:
        raise RowRefused("no job id")
    if "." in given:
        raise RowSkipped("job step")
    if _COMPONENT.fullmatch(shown):
        raise RowSkipped("het component, told by its leader")
    match = _JOB_ID.fullmatch(given)
    if match is None:
        raise RowRefused("job id is not a number")
    if match["task"] and not match["task"].startswith("_["):
        # 10_3 is not the id that Slurm keeps the task under.
        raise RowRefused("array task without JobIDRaw")
    return JobId(int(match["id"])), "_[" in (shown or raw)


def _times(row: Fields, clock: Clock) -> _Times:
    submit = clock.epoch(row["submit"], "submit")
    if submit is None:
        raise RowRefused("no submit time")
    eligible = clock.epoch(row.get("eligible", ""), "eligible", submit)
    start = clock.epoch(row.get("start", ""), "start", submit)
    end = clock.epoch(row.get("end", ""), "end", start)
    elapsed = _first(row, "elapsedraw")
    if elapsed and integer(elapsed, "elapsed") < 0:
        raise RowRefused("negative run time")
    return _Times(submit, eligible, start, end)


def _time_limit_s(row: Fields) -> int | None:
    raw = _first(row, "timelimitraw")
    if raw.isdecimal():
        return int(raw) * _MINUTE_S
    return understood(parse_time_limit, raw or _first(row, "timelimit"), "time limit")


def _count(row: Fields, what: str, *names: str) -> int:
    text = _first(row, *names)
    # A pending job may ask for a range, `2-4`: the least is what it needs to start.
    return integer(text if text.startswith("-") else text.partition("-")[0], what) if text else 0


def _asked_mib(text: str, nodes: int, cpus: int) -> int:
    """ReqMem in sum: Slurm before 21.08 ends it in `n` or `c`, per node or per CPU.

    One that does not read is none: no job is refused for it.
    """
    try:
        mib = tres.parse_tres(f"mem={text}").get("mem", 0) if text else 0
    except MalformedText:
        return 0
    return mib * {"n": nodes, "c": cpus}.get(text[-1:], 1)


def _first(row: Fields, *names: str) -> str:
    """The first of these columns that holds something."""
    for name in names:
        text = row.get(name, "").strip()
        if text.lower() not in _ABSENT:
            return text
    return ""


def _without_free_text(job: Job) -> Job:
    return replace(job, name="", comment="", submit_line="")
