"""A log as a workload: what enters, what does not, and an account of every bad row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirage.history.workloads import asked_resources, replay
from mirage.history.workloads.replay import Replay
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, Partition, Qos, SelectType, SimJob

SUBMIT = 1700000000
PARAMS = Params(nodes=4, gpus_per_node=4)
ROW: dict[str, Any] = {
    "job_id": "12",
    "user": "00007",
    "account": None,
    "partition": "gpu-a100",
    "qos": None,
    "state": "COMPLETED",
    "submit": SUBMIT,
    "eligible": None,
    "start": SUBMIT + 100,
    "end": SUBMIT + 700,
    "timelimit_s": 3600,
    "nodes": 2,
    "gpus": 6,
    "cpus": None,
    "exit_code": "0:0",
    "flags": "",
}
FUTURE = {"start": SUBMIT + 5100, "end": SUBMIT + 5700}
CANCELLED = {"state": "CANCELLED", "start": None, "end": SUBMIT + 500}


def read(tmp_path: Path, *rows: dict[str, Any], params: Params = PARAMS) -> Replay:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist([ROW | row for row in rows]), path)
    return replay.load_replay(path, params)


def only(taken: Replay) -> SimJob:
    (job,) = taken.workload.jobs
    return job


def test_a_job_is_what_was_asked_for_and_its_run_time(tmp_path: Path) -> None:
    job = only(read(tmp_path, {"account": "chem"}))
    assert (job.job_id, job.submit, job.nodes, job.time_limit_s) == (12, SUBMIT, 2, 3600)
    assert (job.user, job.account, job.run_s, job.cancel_at) == ("00007", "chem", 600, None)


def test_nothing_of_the_future_enters_but_run_time(tmp_path: Path) -> None:
    rows = [{"job_id": str(i), "submit": SUBMIT + i} for i in range(1, 6)]
    other = [row | FUTURE | {"exit_code": "1:0", "flags": "dep_suspect"} for row in rows]
    assert read(tmp_path, *rows).workload.jobs == read(tmp_path, *other).workload.jobs


@pytest.mark.parametrize("start", [None, SUBMIT + 500])
def test_one_cancelled_while_pending_leaves_the_queue_when_its_user_gave_up(
    tmp_path: Path, start: int | None
) -> None:
    filled = {"job_id": "1", "nodes": 4, "start": SUBMIT, "end": SUBMIT + 3600}
    taken = read(tmp_path, filled, CANCELLED | {"start": start})
    assert taken.workload.jobs[1].cancel_at == SUBMIT + 500
    assert list(taken.logged.start) == [SUBMIT, -1]
    sim = Simulator(PARAMS, taken.workload)
    sim.run_out()
    assert list(sim.start) == [SUBMIT, -1]
    assert list(sim.end) == [SUBMIT + 3600, SUBMIT + 500]


@pytest.mark.parametrize(("runs", "for_s"), [(False, 0), (True, 500)])
def test_where_it_starts_all_the_same_it_runs_as_logged_or_as_long_as_its_user_waited(
    tmp_path: Path, runs: bool, for_s: int
) -> None:
    params = replace(PARAMS, cancelled_jobs_run=runs)
    taken = read(tmp_path, CANCELLED, params=params)
    sim = Simulator(params, taken.workload)
    sim.run_out()
    assert (list(sim.start), list(sim.end)) == ([SUBMIT], [SUBMIT + for_s])


def test_cancelled_jobs_run_in_a_log_that_was_read_as_in_one_read_anew(tmp_path: Path) -> None:
    runs = replace(PARAMS, cancelled_jobs_run=True)
    long = {"job_id": "13", "submit": SUBMIT + 1, "end": SUBMIT + 9001, "timelimit_s": 60}
    rows = ({"job_id": "11"}, CANCELLED, CANCELLED | long)
    as_logged, as_waited = (read(tmp_path, *rows, params=p) for p in (PARAMS, runs))
    assert [job.run_s for job in as_logged.workload.jobs] == [600, 0, 0]
    assert [job.run_s for job in as_waited.workload.jobs] == [600, 500, 60]
    assert replay.recompute_cancelled_runs(as_logged, runs).workload.jobs == as_waited.workload.jobs
    assert (
        replay.recompute_cancelled_runs(as_waited, PARAMS).workload.jobs == as_logged.workload.jobs
    )


def test_a_run_of_no_time_that_was_not_cancelled_is_a_run(tmp_path: Path) -> None:
    taken = read(tmp_path, {"end": SUBMIT + 100})
    assert (only(taken).run_s, only(taken).cancel_at) == (0, None)
    assert list(taken.logged.start) == [SUBMIT + 100]


@pytest.mark.parametrize("state", ["FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "TIMEOUT"])
def test_one_that_failed_in_its_first_second_ran(tmp_path: Path, state: str) -> None:
    taken = read(tmp_path, {"state": state, "end": SUBMIT + 100})
    assert (only(taken).run_s, only(taken).cancel_at) == (0, None)
    assert (list(taken.logged.start), taken.assumed) == ([SUBMIT + 100], {})


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"nodes": 0}, replay.NO_NODES),
        ({"nodes": 5}, replay.LARGER),
        ({"timelimit_s": None, "start": None, "end": None, "state": "RUNNING"}, replay.NO_FATE),
        ({"timelimit_s": 0, "start": None, "end": None, "state": "PENDING"}, replay.NO_FATE),
    ],
)
def test_rows_left_out_are_counted_and_named(
    tmp_path: Path, bad: dict[str, Any], reason: str
) -> None:
    taken = read(tmp_path, {"job_id": "1"}, bad)
    assert [job.job_id for job in taken.workload.jobs] == [1]
    assert (taken.read, taken.refused, taken.assumed) == (2, {reason: 1}, {})
    assert taken.rows_by_reason == {reason: [12]}


def test_rows_that_do_not_read_are_counted_with_the_row_where_it_began(tmp_path: Path) -> None:
    taken = read(tmp_path, {}, {"job_id": "13", "end": SUBMIT + 50})
    assert taken.refused == {"end before start": 1}
    assert taken.rows_by_reason == {"end before start": [2]}


@pytest.mark.parametrize(
    ("odd", "what", "limit_s", "run_s"),
    [
        ({"timelimit_s": None}, replay.NO_LIMIT, 7200, 600),
        ({"timelimit_s": None, "end": SUBMIT + 10100}, replay.NO_LIMIT, 10000, 10000),
        ({"state": "RUNNING", "end": None}, replay.NO_END, 3600, 3600),
        ({"end": SUBMIT + 9100}, replay.OVER, 3600, 9000),
    ],
)
def test_what_is_assumed_is_counted_and_named(
    tmp_path: Path, odd: dict[str, Any], what: str, limit_s: int, run_s: int
) -> None:
    taken = read(tmp_path, odd, {"job_id": "13", "timelimit_s": 7200})
    job = taken.workload.jobs[0]
    assert (job.time_limit_s, job.run_s) == (limit_s, run_s)
    assert (taken.refused, taken.assumed, taken.rows_by_reason) == ({}, {what: 1}, {what: [12]})


def test_a_repeated_id_is_another_job(tmp_path: Path) -> None:
    taken = read(tmp_path, {}, {"submit": SUBMIT + 50}, {"job_id": "20", "submit": SUBMIT + 60})
    assert [job.job_id for job in taken.workload.jobs] == [12, 21, 20]
    assert taken.rows_by_reason == {replay.REPEATED: [12]}
    assert list(taken.logged.start) == [SUBMIT + 100] * 3


def test_unsorted_rows_are_sorted_and_counted(tmp_path: Path) -> None:
    taken = read(tmp_path, {"job_id": "2", "submit": SUBMIT + 9}, {"job_id": "1"})
    assert [job.job_id for job in taken.workload.jobs] == [1, 2]
    assert taken.rows_by_reason == {replay.UNSORTED: [1]}


def test_suspects_are_replayed_and_marked(tmp_path: Path) -> None:
    flags = ["dep_suspect;state_inferred", "state_inferred", None, "userlimit_suspect"]
    rows = [{"job_id": str(i), "flags": text} for i, text in enumerate(flags, start=1)]
    taken = read(tmp_path, *rows)
    assert len(taken.workload) == 4
    assert taken.logged.suspect.dtype == np.bool_
    assert list(taken.logged.suspect) == [True, False, False, True]


def test_partition_and_qos_are_the_logs_where_the_cluster_file_has_them(tmp_path: Path) -> None:
    params = Params(
        nodes=4,
        partitions=(Partition(name="gpu-a100"), Partition(name="debug")),
        qos=(Qos(name="normal"), Qos(name="urgent")),
    )
    rows = [{"qos": "urgent"}, {"job_id": "13", "partition": "old", "qos": "gone"}]
    taken = read(tmp_path, *rows, params=params)
    assert [(j.partition, j.qos) for j in taken.workload.jobs] == [("gpu-a100", "urgent"), ("", "")]
    assert taken.assumed == {replay.OTHER_PARTITION: 1, replay.OTHER_QOS: 1}


def test_on_shared_nodes_jobs_ask_for_their_cpus_and_gpus_per_node(tmp_path: Path) -> None:
    params = Params(nodes=4, gpus_per_node=4, select_type=SelectType.CONS_TRES)
    job = only(read(tmp_path, {"cpus": 30, "gpus": 3}, params=params))
    assert (job.nodes, job.cpus, job.gpus) == (2, 15, 2)


MEMORY = Params(nodes=4, memory_mib_per_node=1000, select_type=SelectType.CONS_TRES)


def test_on_nodes_whose_memory_counts_jobs_ask_for_theirs_per_node(tmp_path: Path) -> None:
    taken = read(tmp_path, {"memory_mib": 1501, "cpus": 2}, params=MEMORY)
    assert (only(taken).memory_mib, taken.assumed) == (751, {})
    exclusive = replace(MEMORY, partitions=(Partition(exclusive=True),))
    assert only(read(tmp_path, {"memory_mib": 1501, "cpus": 2}, params=exclusive)).memory_mib == 751
    large = read(tmp_path, {"memory_mib": 2001, "cpus": 2}, params=MEMORY)
    assert list(large.refused) == ["more per node than enough nodes of the partition have"]


def test_where_memory_counts_a_row_without_it_is_counted(tmp_path: Path) -> None:
    taken = read(tmp_path, {"cpus": 2}, params=MEMORY)
    assert (only(taken).memory_mib, taken.rows_by_reason) == (0, {asked_resources.NO_MEMORY: [12]})
    limited = Params(select_type=SelectType.CONS_TRES, qos=(Qos(max_memory_mib_pu=9),))
    assert read(tmp_path, {"cpus": 2}, params=limited).assumed == {asked_resources.NO_MEMORY: 1}


def test_memory_is_not_asked_for_where_it_does_not_count(tmp_path: Path) -> None:
    uncounted = replace(MEMORY, memory_mib_per_node=0)
    for params in (PARAMS, uncounted, replace(MEMORY, select_type=SelectType.LINEAR)):
        taken = read(
            tmp_path, {"memory_mib": 1501, "cpus": 2}, {"job_id": "13", "cpus": 2}, params=params
        )
        assert [job.memory_mib for job in taken.workload.jobs] == [0, 0]
        assert taken.assumed == {}


def test_the_instant_of_eligibility_is_kept_beside(tmp_path: Path) -> None:
    taken = read(tmp_path, {"eligible": SUBMIT + 70}, {"job_id": "13"})
    assert list(taken.logged.eligible) == [SUBMIT + 70, -1]


def test_what_slurm_would_refuse_is_left_out_and_named(tmp_path: Path) -> None:
    params = Params(nodes=4, partitions=(Partition(max_time_s=1800),))
    taken = read(tmp_path, {"job_id": "1", "timelimit_s": 1800}, {}, params=params)
    assert [job.job_id for job in taken.workload.jobs] == [1]
    assert list(taken.rows_by_reason.values()) == [[12]]
    assert list(taken.refused) == ["time limit over the partition's MaxTime"]
