"""squeue's answers as text: rows by field, and ways to damage one so that it can be seen."""

import random
from collections.abc import Callable, Iterable

from mirage.domain.job import JobState
from mirage.slurm.commands import squeue
from tests.support.slurm.printed_jobs import JobValues

NOW = 1_700_000_000
ROW = JobValues(
    account="ml",
    qos="normal",
    state=JobState.RUNNING,
    priority=5,
    submit=NOW - 600,
    start=NOW - 300,
    end=NOW + 3300,
    cpus=8,
    node_list="gpu01",
).build_queue_cells() | {
    "tres-alloc": "cpu=8,mem=32G,node=1,billing=8,gres/gpu=2",
    "tres-per-node": "gres:gpu:2",
}
Cells = list[str]
Damage = Callable[[Cells, random.Random], Cells]


def cells(**changes: str) -> Cells:
    return list((ROW | changes).values())


def text(rows: Iterable[Cells], separator: str = "|") -> str:
    return "".join("".join(f"{cell}{separator}" for cell in row) + "\n" for row in rows)


def _set(name: str, *values: str) -> Damage:
    def damage(row: Cells, rng: random.Random) -> Cells:
        row[squeue.FIELDS.index(name)] = rng.choice(values)
        return row

    return damage


def _without(row: Cells, rng: random.Random) -> Cells:
    """Remove one field, any but the id."""
    del row[rng.randrange(1, len(row))]
    return row


def _with_more(row: Cells, rng: random.Random) -> Cells:
    row.insert(rng.randrange(1, len(row)), "7")
    return row


DAMAGES: tuple[Damage, ...] = (
    _without,
    _with_more,
    _set("JobID", "", "x", "12 ", "9" * 30, "\u0661"),
    _set("UserID", "", "alice", "-1"),
    _set("UserName", "al\ufffdce"),
    _set("SubmitTime", "", "soon", "2023-11-14T22:13:20", "9" * 400),
    _set("StartTime", "soon", "1.5"),
    _set("EndTime", "never", "-5"),
    _set("TimeLimit", "an hour", "1:2:3:4", "9" * 5000),
    _set("NumNodes", "", "two", "9" * 20),
    _set("NumCPUs", "8 ", "1K"),
    _set("PriorityLong", "high"),
    _set("HetJobID", "first"),
)
