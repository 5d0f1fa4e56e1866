"""What a replay reports, and the jobs it writes."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mirage.history.workloads import replay
from mirage.lab.simulation.simulation import (
    SimulationReport,
    build_simulator,
    simulate_replay,
    write_jobs,
)
from mirage.simulator.types import OFF, NodeGroup, Params, Partition, SelectType

SHARED = Params(nodes=4, memory_mib_per_node=1000, select_type=SelectType.CONS_TRES)
HEADER = "JobID|User|Partition|NNodes|NCPUS|TimelimitRaw|Submit|Eligible|Start|End|State|AllocTRES"
SUBMIT = 1700000000
DAY = 86400


def print_row(job_id: int, at: int, *, nodes: int = 2, partition: str = "", tres: str = "") -> str:
    times = "|".join(str(at + after) for after in (0, 90, 100, 3700))
    return f"{job_id}|ann|{partition}|{nodes}|{nodes}|60|{times}|COMPLETED|{tres}"


def replayed(tmp_path: Path, params: Params, *rows: str) -> tuple[SimulationReport, Path]:
    path = tmp_path / "dump.psv"
    path.write_text("\n".join([HEADER, *rows, ""]))
    taken = replay.load_replay(path, params)
    sim = build_simulator(taken, params)
    report = simulate_replay(taken, sim, None, None)
    write_jobs(tmp_path / "jobs.parquet", taken, sim)
    return report, tmp_path / "jobs.parquet"


def given(path: Path) -> list[tuple[int, ...]]:
    rows = pq.read_table(path).to_pylist()
    return [(row["cpus"], row["memory_mib"], row["gpus"]) for row in rows]


def test_on_shared_nodes_jobs_are_written_with_what_they_asked_for(tmp_path: Path) -> None:
    tres = "cpu=2,mem=600M,node=2"
    rows = (print_row(1, SUBMIT, tres=tres), print_row(2, SUBMIT, tres=f"{tres},gres/gpu=2"))
    _, out = replayed(tmp_path, SHARED, *rows)
    assert given(out) == [(2, 600, 0), (2, 600, 2)]
    again = replay.load_replay(out, SHARED).workload.jobs
    assert [(job.cpus, job.memory_mib, job.gpus) for job in again] == [(1, 300, 0), (1, 300, 1)]


def test_whole_nodes_are_written_with_all_they_have(tmp_path: Path) -> None:
    _, out = replayed(tmp_path, Params(nodes=4, gpus_per_node=3), print_row(1, SUBMIT))
    assert given(out) == [(128, 0, 6)]


def test_whole_nodes_among_shared_ones_count_as_the_partitions_smallest(tmp_path: Path) -> None:
    params = Params(
        nodes=5,
        node_groups=(NodeGroup(count=2, cpus=8), NodeGroup(count=3, cpus=32, gpus=4)),
        partitions=(
            Partition(name="shared"),
            Partition(name="whole", exclusive=True),
            Partition(name="large", nodes=(2, 3, 4), exclusive=True),
        ),
        select_type=SelectType.CONS_TRES,
    )
    names = ("shared", "whole", "large")
    rows = [print_row(i, SUBMIT, partition=name) for i, name in enumerate(names, start=1)]
    rows[2] = print_row(3, SUBMIT, partition="large", tres="cpu=2,node=2,gres/gpu=1")
    _, out = replayed(tmp_path, params, *rows)
    assert given(out) == [(2, 0, 0), (16, 0, 0), (64, 0, 8)]


@pytest.mark.parametrize(
    ("days", "why"),
    [
        (5, "no submission in the log is later than 6 days after its first start"),
        (7, None),
    ],
)
def test_a_log_of_less_than_the_days_left_out_is_not_judged(
    tmp_path: Path, days: int, why: str | None
) -> None:
    report, _ = replayed(tmp_path, SHARED, print_row(1, SUBMIT), print_row(2, SUBMIT + days * DAY))
    assert (report.fidelity is None, report.not_judged) == (why is not None, why)
    if report.fidelity:
        assert (report.fidelity.jobs, report.fidelity.late_eligible) == (1, 1)


def test_where_no_job_of_the_window_started_there_is_nothing_to_judge(tmp_path: Path) -> None:
    waiting = f"2|ann||2|2|60|{SUBMIT + 9 * DAY}||||PENDING|"
    report, _ = replayed(tmp_path, SHARED, print_row(1, SUBMIT), waiting)
    assert report.fidelity is None
    assert report.not_judged == (
        "no job submitted in that time started in both log and replay without being suspect"
    )


def test_where_no_job_starts_the_time_simulated_is_that_of_the_submissions(tmp_path: Path) -> None:
    params = Params(nodes=4, sched_interval_s=OFF, bf_interval_s=OFF)
    report, _ = replayed(tmp_path, params, print_row(1, SUBMIT), print_row(2, SUBMIT + DAY))
    assert (report.started, report.simulated_s) == (0, DAY)
