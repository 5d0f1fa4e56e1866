"""`mirage simulate` on dumps as sites make them: what is read, what is assumed, what is refused."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mirage.history.formats import swf
from mirage.history.workloads import replay
from mirage.slurm.commands import sacct_record
from tests.support import mirage_process
from tests.support.mirage_process import Answer
from tests.support.paths import CHECKOUT

SITE = """\
[cluster]
name = "campus"
nodes = 12
gpus_per_node = 0
cpus_per_node = 16
[scheduler]
SelectType = "select/linear"
[[partitions]]
PartitionName = "cpu"
Nodes = "0-7"
MaxTime = "UNLIMITED"
[[partitions]]
PartitionName = "fat"
Nodes = "8-9"
MaxTime = "02:00:00"
[[partitions]]
PartitionName = "gpu"
Nodes = "10-11"
MaxTime = "UNLIMITED"
"""
T = 1_600_000_000


@dataclass(frozen=True, slots=True)
class Told:
    """What the command told, and the jobs that it wrote, by number."""

    json: dict[str, Any]
    jobs: dict[int, dict[str, Any]]
    err: str

    def wait_s(self, job: int) -> int | None:
        row = self.jobs[job]
        return None if row["start"] is None else row["start"] - row["submit"]

    def run_s(self, job: int) -> int:
        return int(self.jobs[job]["end"] - self.jobs[job]["start"])

    @property
    def assumed(self) -> dict[str, int]:
        return {why: found["rows"] for why, found in self.json["rows"]["assumed"].items()}


def run(folder: Path, log: str, *more: str, site: str = SITE, zone: str = "UTC") -> Answer:
    (folder / "log.txt").write_text(log)
    (folder / "site.toml").write_text(site)
    args = [folder / "log.txt", "--cluster", folder / "site.toml", "--json", *more]
    return mirage_process.run("simulate", *map(str, args), cwd=CHECKOUT, TZ=zone)


def simulated(folder: Path, log: str, *more: str, site: str = SITE, zone: str = "UTC") -> Told:
    out = folder / "o.parquet"
    done = run(folder, log, "--out", str(out), *more, site=site, zone=zone)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    rows = told["rows"]
    left_out = [found["rows"] for kind in ("refused", "skipped") for found in rows[kind].values()]
    assert rows["read"] == told["jobs"] + sum(left_out), "the counts add up"
    jobs = {int(row["job_id"]): row for row in pq.read_table(out).to_pylist()}
    return Told(told, jobs, done.err)


def test_runs_by_elapsed(tmp_path: Path) -> None:
    """Without an end; suspended, with and without telling so."""
    log = """\
JobIDRaw|User|Partition|Submit|Start|End|ElapsedRaw|Suspended|TimelimitRaw|NNodes|State
1|ann|cpu|2024-03-01T00:00:00|2024-03-01T01:00:00||2400||1440|1|FAILED
2|ann|cpu|2024-03-01T00:00:00|2024-03-01T01:00:00|2024-03-02T01:00:00|3600|23:00:00|120|1|COMPLETED
3|ann|cpu|2024-03-01T00:00:00|2024-03-01T01:00:00|2024-03-02T01:00:00|5000||120|1|TIMEOUT
"""
    told = simulated(tmp_path, log)
    assert [told.run_s(n) for n in (1, 2, 3)] == [2400, 3600, 5000]


def test_a_partition_list_is_the_first_that_takes_the_job(tmp_path: Path) -> None:
    log = f"""\
JobIDRaw|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes
1|ann|fat,gpu|COMPLETED|{T}|{T}|{T + 60}|600|2
2|bea|nowhere,gpu|RUNNING|{T + 1}|{T + 1}|Unknown|60|1
3|cid|cpu|COMPLETED|{T + 2}|{T + 2}|{T + 60}|60|8
4|dan|fat,cpu|PENDING|{T + 3}|Unknown|Unknown|60|2
"""
    told = simulated(tmp_path, log)
    assert [told.jobs[n]["partition"] for n in (1, 2, 3, 4)] == ["gpu", "gpu", "cpu", "fat"]
    assert (told.wait_s(1), told.wait_s(3), told.wait_s(4)) == (0, 0, 0)
    assert told.assumed[replay.SEVERAL_PARTITIONS] == 3


def test_what_runs_without_a_limit_runs_to_the_logs_end(tmp_path: Path) -> None:
    log = f"""\
JobIDRaw|User|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes
1|ann|cpu|RUNNING|{T}|{T + 100}|Unknown|20000|UNLIMITED|8
2|bea|cpu|PENDING|{T + 50}|Unknown|Unknown|0|60|1
3|cid|gpu|SUSPENDED|{T + 60}|{T + 60}|Unknown|90||2
4|dan|gpu|RUNNING|{T + 70}|{T + 70}|Unknown|90|500-00:00:00|1
5|eve|cpu|PENDING|{T + 70}|Unknown|Unknown|0|UNLIMITED|1
"""
    told = simulated(tmp_path, log)
    assert told.json["simulated_s"] == 20100
    assert [told.jobs[n]["state"] for n in (1, 2, 3)] == ["RUNNING", "PENDING", "RUNNING"]
    assert [told.wait_s(n) for n in (1, 2, 3, 4)] == [0, None, 0, None]
    assert told.assumed[replay.RUNS_ON] == 2
    assert told.json["rows"]["refused"] == {replay.NO_FATE: {"rows": 1, "first": [5]}}


SEVERAL = f"""\
Cluster|JobIDRaw|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes
east|1|ann|cpu|COMPLETED|{T}|{T}|{T + 60}|60|1
west|1|ann|cpu|COMPLETED|{T}|{T}|{T + 600}|60|1
west|2|ann|cpu|COMPLETED|{T}|{T}|{T + 60}|60|1
"""


def test_a_dump_of_several_clusters_needs_a_name(tmp_path: Path) -> None:
    refused = run(tmp_path, SEVERAL)
    assert (refused.code, refused.out) == (2, "")
    assert "several clusters (east, west): name one with --cluster-name" in refused.err
    told = simulated(tmp_path, SEVERAL, "--cluster-name", "West")
    assert told.run_s(1) == 600
    assert told.json["rows"]["skipped"] == {"of another cluster": {"rows": 1, "first": [2]}}
    wrong = run(tmp_path, SEVERAL, "--cluster-name", "north")
    assert wrong.code == 2
    assert "no job of cluster north, only of east, west" in wrong.err


def test_a_workload_file_may_lack_any_field(tmp_path: Path) -> None:
    def row(job: int, **fields: int) -> str:
        names = "submit wait run procs cpu mem asked limit reqmem status user group app queue"
        names += " partition before think"
        given = dict.fromkeys(names.split(), 1) | {"run": 600, "limit": 3600, "procs": 16} | fields
        return " ".join(map(str, (job, *given.values())))

    rows = [
        row(1),
        row(2, submit=-1),
        row(3, wait=-1),
        row(4, run=-1),
        row(5, procs=-1, asked=32),
        row(6, procs=-1, asked=-1),
        row(7, limit=-1),
        row(8, status=-1),
        row(9, status=5, run=-1, wait=100),
        row(-1),
        row(11, cpu=-1, mem=-1, reqmem=-1, user=-1, group=-1, app=-1, queue=-1, partition=-1),
        row(12, before=-1, think=-1),
    ]
    head = f"; UnixStartTime: {T}\n; MaxNodes: 12\n; MaxProcs: 192\n"
    told = simulated(tmp_path, head + "\n".join(rows) + "\n")
    assert sorted(told.jobs) == [1, 3, 4, 5, 6, 7, 8, 9, 11, 12]
    assert {n: told.run_s(n) for n in (3, 4, 7, 8)} == {3: 600, 4: 3600, 7: 600, 8: 600}
    assert [told.jobs[n]["nodes"] for n in (1, 5, 6)] == [1, 2, 1]
    refused = {why: found["rows"] for why, found in told.json["rows"]["refused"].items()}
    assert refused == {"no submit time": 1, "job id is not a positive number": 1}
    assumed = {sacct_record.NO_NODES: 1, replay.NO_END: 1, replay.NO_LIMIT: 1, swf.NO_STATUS: 1}
    assert told.assumed.items() >= assumed.items()


def test_the_table_counts_too(tmp_path: Path) -> None:
    steps = SEVERAL.replace("east|1|", "west|2.batch|")
    (tmp_path / "log.txt").write_text(steps)
    (tmp_path / "site.toml").write_text(SITE)
    words = ("simulate", "log.txt", "--cluster", "site.toml")
    done = mirage_process.run(*words, cwd=tmp_path, COLUMNS="120")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    for told in (("read", "3"), ("replayed", "2"), ("skipped: job step", "1")):
        assert any(all(word in line for word in told) for line in lines), told
