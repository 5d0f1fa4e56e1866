"""Tables of jobs written as sacct would write them, with any fields, delimiter and form of time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

ZONE = ZoneInfo("Europe/Berlin")
DELIMITERS = ("|", ";", "\t", "^", "~", "!", "\x1f", "||", "#@#")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A job that ran, as Slurm knows it."""

    job_id: int
    submit: int
    waited_s: int
    ran_s: int
    suspended_s: int
    nodes: int
    cpus: int
    gpus: int
    limit_min: int
    name: str
    state: str = "COMPLETED"

    @property
    def start(self) -> int:
        return self.submit + self.waited_s

    @property
    def end(self) -> int:
        return self.start + self.ran_s + self.suspended_s


Cell = Callable[[Ran], str]
Columns = Mapping[str, Cell]


def converted(count: int) -> str:
    """As sacct writes a count without --noconvert."""
    return f"{count // 1024}K" if count and count % 1024 == 0 else str(count)


def span(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def _wall(zone: tzinfo) -> Callable[[int], str]:
    return lambda at: datetime.fromtimestamp(at, zone).strftime("%Y-%m-%dT%H:%M:%S")


TIMES: Mapping[str, Callable[[int], str]] = {
    "epoch": str,
    "utc": _wall(UTC),
    "berlin": _wall(ZONE),
}

NODES: Sequence[Columns] = (
    {"NNodes": lambda job: converted(job.nodes)},
    {"AllocNodes": lambda job: converted(job.nodes), "ReqNodes": lambda _: "1"},
    {"AllocNodes": lambda _: "0", "ReqNodes": lambda job: str(job.nodes)},
    {"NodeList": lambda job: f"cn[1-{job.nodes}]"},
    {"AllocTRES": lambda job: f"billing=1,node={job.nodes}"},
    {"ReqTRES": lambda job: f"node={job.nodes},cpu=1", "AllocTRES": lambda _: ""},
)
CPUS: Sequence[Columns] = (
    {"NCPUS": lambda job: converted(job.cpus)},
    {"AllocCPUS": lambda job: str(job.cpus), "ReqCPUS": lambda _: "1"},
    {"AllocCPUS": lambda _: "0", "ReqCPUS": lambda job: converted(job.cpus)},
)
GPUS: Sequence[Columns] = (
    {"AllocGRES": lambda job: f"gpu:a100_80g.x-1:{job.gpus}"},
    {"AllocGRES": lambda job: f"gpu:(null):{job.gpus},mps:7"},
    {"ReqGRES": lambda job: f"gpu:{job.gpus // job.nodes}(S:0-1)"},
)
LIMITS: Sequence[Columns] = (
    {"TimelimitRaw": lambda job: str(job.limit_min)},
    {"Timelimit": lambda job: span(job.limit_min * 60)},
)
STATES = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED by 1003")
NAMES: Sequence[Columns] = ({}, {"JobName": lambda job: job.name})


def ends(time: Callable[[int], str]) -> Sequence[Columns]:
    """What tells how long a job ran, and was suspended."""
    end: Columns = {"End": lambda job: time(job.end)}
    raw: Columns = {"ElapsedRaw": lambda job: str(job.ran_s)}
    shown: Columns = {"Elapsed": lambda job: span(job.ran_s)}
    suspended: Columns = {"Suspended": lambda job: span(job.suspended_s)}
    return ({**raw, **suspended}, {**shown, **suspended}, {**end, **raw, **suspended})


@st.composite
def rans(draw: st.DrawFn) -> list[Ran]:
    """Some of them in the night when the clock in Berlin shows an hour twice."""
    number = draw(st.integers(1, 6))
    found = []
    for job_id in range(1, number + 1):
        nodes = draw(st.sampled_from((1, 2, 3, 64, 1024, 4096)))
        found.append(
            Ran(
                job_id=job_id,
                submit=1_698_537_600 + draw(st.integers(0, 12 * 3600)),
                waited_s=draw(st.integers(0, 9000)),
                ran_s=draw(st.integers(1, 9000)),
                suspended_s=draw(st.sampled_from((0, 0, 60, 36000))),
                nodes=nodes,
                cpus=nodes * draw(st.sampled_from((1, 7, 128))),
                gpus=nodes * draw(st.sampled_from((1, 4))),
                limit_min=draw(st.integers(1, 5000)),
                name=draw(st.sampled_from(("train", "a b", "7", "x=1,2"))),
                state=draw(st.sampled_from(STATES)),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Written:
    text: str
    form: str
    columns: tuple[str, ...]


@st.composite
def dumps(draw: st.DrawFn, jobs: Sequence[Ran]) -> Written:
    form = draw(st.sampled_from(sorted(TIMES)))
    time = TIMES[form]
    columns: dict[str, Cell] = {
        "JobIDRaw": lambda job: str(job.job_id),
        "State": lambda job: job.state,
        "Submit": lambda job: time(job.submit),
        "Start": lambda job: time(job.start),
    }
    for kinds in (NODES, CPUS, GPUS, LIMITS, NAMES, ends(time)):
        columns |= draw(st.sampled_from(kinds))
    if {"End", "ElapsedRaw"} <= columns.keys() and draw(st.booleans()):
        del columns["Start"]
    names = draw(st.permutations(sorted(columns)))
    apart, last = draw(st.sampled_from(DELIMITERS)), draw(st.booleans())
    rows = [names, *([columns[name](job) for name in names] for job in jobs)]
    lines = (apart.join(row) + (apart if last else "") for row in rows)
    return Written("\n".join(lines) + "\n", form, tuple(names))
