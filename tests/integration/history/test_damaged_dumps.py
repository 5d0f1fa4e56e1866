"""Ten thousand rows damaged so that it can be seen: each is counted, and every good one kept."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.history.formats.trace_file import open_trace

COLUMNS = (
    *("JobIDRaw", "JobName", "User", "UID", "State", "Submit", "Eligible", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "AllocTRES", "ReqGRES", "NodeList"),
)
ROWS, DAMAGED = 30_000, 10_000
Row = list[bytes]


def good(number: int) -> Row:
    at = 1_700_000_000 + 60 * number
    cells = {
        "JobIDRaw": number,
        "JobName": f"job {number}",
        "User": "ann",
        "UID": 1001,
        "State": "COMPLETED",
        "Submit": at,
        "Eligible": at,
        "Start": at + 10,
        "End": at + 610,
        "ElapsedRaw": 600,
        "TimelimitRaw": 60,
        "NNodes": 2,
        "NCPUS": 64,
        "AllocTRES": "cpu=64,node=2",
        "ReqGRES": "gpu:2",
        "NodeList": "cn[1-2]",
    }
    return [str(cells[name]).encode() for name in COLUMNS]


def cell(name: str, *values: bytes) -> Callable[[Row, random.Random], Row]:
    def damage(row: Row, rng: random.Random) -> Row:
        row[COLUMNS.index(name)] = rng.choice(values)
        return row

    return damage


def cut(row: Row, rng: random.Random) -> Row:
    return row[: rng.randrange(1, len(row))]


def longer(row: Row, rng: random.Random) -> Row:
    return [*row, *[b"7"] * rng.randrange(1, 4)]


NOISE = (b"x", b"--", b"1_0", b"\xd9\xa1", b"9" * 5000, b"0x10", b"1e400", b"nan", b"12 13")
DAMAGES = (
    cut,
    longer,
    cell("JobIDRaw", b"", b"*", b"-4", *NOISE),
    cell("UID", *NOISE),
    cell("State", b"", b"7", b"?", b"\xff\xfe"),
    cell("Submit", b"", b"yesterday", b"2023-13-01T00:00:00", b"99999-01-01", b"1e9", *NOISE[:5]),
    cell("Start", b"soon", b"2023-02-30T10:00:00", b"1700000000000000", b"-1"),
    cell("End", b"soon", b"24:00", b"1", b"99999999999999999999"),
    cell("ElapsedRaw", b"-600", *NOISE),
    cell("TimelimitRaw", b"an hour", b"1:2:3:4", b"9" * 5000, b"-60"),
    cell("NNodes", b"two", b"-2", b"1.5", b"9" * 5000, b"3Q", b"9P"),
    cell("NCPUS", b"many", b"-64", b"64X"),
    cell("AllocTRES", b"cpu", b"cpu=64;node=2", b"node=two", b"gres/gpu=" + b"9" * 5000),
    cell("ReqGRES", b"gpu:a:b:c:2", b"gpu:a100:x"),
    cell("User", b"\xff", b"a\xc3("),
    cell("JobName", b"tr\xe4in", b"\xf0\x28\x8c\x28"),
)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_damaged_row_is_counted_and_every_good_one_kept(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secrets here
    bad = set(rng.sample(range(1, ROWS), DAMAGED))
    lines = [b"|".join(name.encode() for name in COLUMNS)]
    for number in range(1, ROWS + 1):
        row = good(number)
        lines.append(b"|".join(rng.choice(DAMAGES)(row, rng) if number in bad else row))
    path = tmp_path / "dump"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with open_trace(path) as trace:
        found = [job for batch in trace.iter_batches() for job in batch]
    assert {job.job_id for job in found} == set(range(1, ROWS + 1)) - bad
    assert trace.tally.read == ROWS
    assert trace.tally.refused.total() == DAMAGED, trace.tally.refused
    assert all(job.nodes == 2 and job.gpus == 4 for job in found)
