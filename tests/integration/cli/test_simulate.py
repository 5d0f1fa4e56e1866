"""`mirage simulate` as a process: figures, the file it writes, bad rows and bad input."""

import json
from pathlib import Path

import pytest

from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads import replay, synthetic
from tests.support.mirage_process import Answer, run
from tests.support.paths import CHECKOUT, SHARED

LS6 = SHARED / "traces/tacc-ls6-a100.parquet"
LS6_CLUSTER = SHARED / "clusters/ls6.toml"
CLUSTER = """\
[cluster]
name = "lab"
nodes = 2
[scheduler]
MaxJobsPU = 2
"""
HEADER = "JobID|User|NNodes|TimelimitRaw|Submit|Start|End|State\n"
DUMP = (
    HEADER
    + """\
1|ann|2|60|1700000000|1700000000|1700003600|TIMEOUT
2|bob|1|60|1700000100|1700003600|1700005400|COMPLETED
3|ann|3|60|1700000200|1700003600|1700005400|COMPLETED
4|ann|1|60|1700000300|1700000200|1700000100|COMPLETED
5|eve|1||1700000400|||PENDING
6|eve|1||1700600500|1700700500|1700704100|FAILED
"""
)


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "lab.toml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.psv"
    path.write_text(DUMP)
    return path


def simulate(*args: str | Path) -> Answer:
    return run("simulate", *map(str, args), cwd=CHECKOUT, COLUMNS="120", TZ="UTC")


def test_figures_as_json_and_bad_rows_named(dump: Path, cluster_file: Path) -> None:
    done = simulate(dump, "--cluster", cluster_file, "--json", "--from", "2023-11-01")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["jobs"], told["started"]) == (3, 3)
    assert told["simulated_s"] == 1700600500 + 3600 - 1700000000
    assert told["jobs_per_s"] == pytest.approx(3 / told["wall_s"])
    assert told["wait_h"] == pytest.approx(
        {"mean": 3500 / 3 / 3600, "median": 0, "p90": 0.8 * 3500 / 3600}
    )
    planner = told["slurm_version"], told["planned_as"], told["planner_checked"]
    assert planner == ("", "22.05", False)
    assert told["fidelity"]["jobs"] == 3
    assert told["fidelity"]["wait_mae_h"] == pytest.approx(100000 / 3 / 3600)
    assert told["fidelity"]["from"] == 1698796800
    assert told["fidelity"]["late_eligible"] is None
    assert told["rows"] == {
        "read": 6,
        "refused": {
            "end before start": {"rows": 1, "first": [5]},
            replay.LARGER: {"rows": 1, "first": [3]},
            replay.NO_FATE: {"rows": 1, "first": [5]},
        },
        "skipped": {},
        "assumed": {replay.NO_LIMIT: {"rows": 1, "first": [6]}},
    }
    assert f"mirage: warning: {dump}: 3 of 6 rows were left out: " in done.err
    assert len(done.err.splitlines()) == 1


def test_the_table_says_the_same(dump: Path, cluster_file: Path) -> None:
    done = simulate(dump, "--cluster", cluster_file, "--weekly", "--from", "2023-11-01")
    assert done.code == 0, done.err
    for row in (
        ("jobs", "3"),
        ("eligible over a minute after submission", "not in the log"),
        ("wait, mean", "0.32 h"),
        ("2023-11-13", "2", "0.49 h"),
        (replay.LARGER, "1", "3"),
        (replay.NO_LIMIT, "1", "6"),
    ):
        assert any(all(word in line for word in row) for line in done.out.splitlines()), row


def test_a_log_without_starts_has_no_fidelity(tmp_path: Path, cluster_file: Path) -> None:
    path = tmp_path / "queue.psv"
    path.write_text(HEADER + "1|ann|1|60|1700000000|||PENDING\n")
    told = json.loads(simulate(path, "--cluster", cluster_file, "--json").out)
    assert (told["jobs"], told["fidelity"]) == (1, None)
    assert told["not_judged"] == "the log has no starts"


def test_of_a_short_log_the_table_says_why_it_is_not_judged(dump: Path, cluster_file: Path) -> None:
    dump.write_text("".join(DUMP.splitlines(keepends=True)[:3]))
    told = json.loads(simulate(dump, "--cluster", cluster_file, "--json").out)
    assert (told["jobs"], told["fidelity"]) == (2, None)
    done = simulate(dump, "--cluster", cluster_file)
    row = next(line for line in done.out.splitlines() if "not judged" in line)
    assert told["not_judged"] in row


def test_the_replayed_jobs_are_a_trace(tmp_path: Path, dump: Path, cluster_file: Path) -> None:
    out = tmp_path / "jobs.parquet"
    assert simulate(dump, "--cluster", cluster_file, "--out", out).code == 0
    again = replay.load_replay(out, load_cluster_params(cluster_file))
    assert [job.job_id for job in again.workload.jobs] == [1, 2, 6]
    assert list(again.logged.start) == [1700000000, 1700003600, 1700600500]
    assert list(again.logged.end) == [1700003600, 1700005400, 1700604100]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", "is empty"),
        (HEADER + "5|eve|9|60|1700000400||1700005400|COMPLETED\n", "none of 1 rows can be"),
    ],
)
def test_a_file_without_a_job_is_bad_input(
    tmp_path: Path, cluster_file: Path, rows: str, words: str
) -> None:
    path = tmp_path / "t.psv"
    path.write_text(rows)
    done = simulate(path, "--cluster", cluster_file)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_qos_with_partition_time_limit_has_longer_jobs_than_its_partition(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site.toml"
    site.write_text(
        '[cluster]\nname = "lab"\nnodes = 8\n'
        '[[partitions]]\nPartitionName = "cpu"\nMaxTime = "2-0"\n'
        '[[qos]]\nName = "normal"\n[[qos]]\nName = "weeks"\nFlags = "PartitionTimeLimit"\n'
    )
    log = tmp_path / "jobs.txt"
    log.write_text(
        "JobIDRaw|User|Partition|QOS|State|Submit|Start|End|TimelimitRaw|NNodes\n"
        "1|u|cpu|normal|COMPLETED|1700000000|1700000000|1700086400|2880|2\n"
        "2|u|cpu|weeks|COMPLETED|1700000000|1700000000|1700432000|20160|2\n"
        "3|u|cpu|normal|TIMEOUT|1700000000|1700000000|1700604800|20160|2\n"
    )
    done = simulate(log, "--cluster", site, "--json")
    told = json.loads(done.out)
    assert told["jobs"] == 2
    assert [row["rows"] for row in told["rows"]["refused"].values()] == [1]


def test_other_bad_input_is_one_sentence(tmp_path: Path, dump: Path, cluster_file: Path) -> None:
    for args, words in (
        (("--from", "2024-05-01", "--until", "2024-04-01"), "--from must be before --until"),
        (("--out", tmp_path / "no/such/jobs.parquet"), "cannot be written"),
    ):
        done = simulate(dump, "--cluster", cluster_file, *args)
        assert done.code == 2, done.err
        assert words in done.err
        assert "Traceback" not in done.err


@pytest.mark.skipif(not LS6.exists(), reason="needs ../shared/traces: the LS6 log")
def test_lonestar6_is_as_near_to_its_log_as_promised() -> None:
    span = ("--from", "2022-11-07", "--until", "2023-02-26")
    done = simulate(LS6, "--cluster", LS6_CLUSTER, "--json", *span)
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["jobs"] == 17300
    assert told["fidelity"]["spearman"] >= 0.50
    assert told["fidelity"]["weekly_corr"] >= 0.60
    assert 0.7 <= told["fidelity"]["mean_ratio"] <= 1.4


def test_chains_are_played_until_their_work_is_done(tmp_path: Path) -> None:
    """On a busy synthetic log: nothing is faster than the bound."""
    log, cluster = write_busy_log(tmp_path)
    words = ("--cluster", cluster, "--work", "30h", "--time-limit", "8:00:00", "--chains", "2")
    done = simulate(log, *words, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    days = {name: figures["days"] for name, figures in report["policies"].items()}
    assert set(days) == {
        *("reactive", "at-once", "average", "quantile", "auto", "pin-then-free"),
        *("planned-quantile", "bound"),
    }
    assert min(days.values()) == days["bound"]
    idle = {name: figures["idle_node_hours"] for name, figures in report["policies"].items()}
    assert idle["reactive"] == idle["bound"] == 0
    assert report["most_returns"] == 2
    assert report["policies"]["bound"]["interrupted_h"] == 0
    assert report["policies"]["bound"]["links"] == 4, "each works for 7 h 50 min at most"
    assert report["chains"] + report["left_out"] == 2
    shown = simulate(log, *words, "--policy", "planned-quantile")
    assert "30 h of work in links of 1 node(s) and 8 h" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


def test_chains_are_played_under_the_policies_that_are_named(tmp_path: Path) -> None:
    log, cluster = write_busy_log(tmp_path)
    words = ("--cluster", cluster, "--work", "14h", "--time-limit", "8:00:00", "--chains", "1")
    policies = ("--policy", "twin", "--policy", "models/ensemble-ls6")
    done = simulate(log, *words, *policies, "--style", "switch", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    names = list(report["policies"])
    assert names == ["reactive", "twin", "models/ensemble-ls6", "bound"]
    assert (report["style"], report["overlap_price"]) == ("switch", None)
    assert min(row["days"] for row in report["policies"].values()) == pytest.approx(
        report["policies"]["bound"]["days"]
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--returns", "0"], "--returns is of chains: it needs --work"),
        (["--time-limit", "8:00:00"], "--time-limit is of chains: it needs --work"),
        (["--policy", "twin"], "--policy is of chains: it needs --work"),
        (["--work", "30h", "--policy", "x"], "there is no policy 'x': choose one of reactive"),
        (["--work", "30h", "--policy", "models/x/1"], "no model models/x/1"),
        (["--work", "30h", "--style", "serve"], "--style serve is not played"),
        (["--work", "30h", "--weekly"], "--weekly and --out tell of jobs, and --work of chains"),
        (["--work", "x"], "--work x: not a time such as 4h or 48:00:00"),
        (["--work", "9000h"], "choose less --work, or a longer log"),
        (["--work", "30h", "--nodes", "9000"], "a pair of 9000 nodes does not fit"),
        (["--work", "30h", "--time-limit", "10m"], "--startup-time must be shorter than"),
    ],
)
def test_chains_that_cannot_be_played_are_refused_in_a_sentence(
    tmp_path: Path, words: list[str], why: str
) -> None:
    log, cluster = write_busy_log(tmp_path)
    done = simulate(log, "--cluster", cluster, *words)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


def write_busy_log(folder: Path) -> tuple[Path, Path]:
    """Three weeks of a log of 24 nodes, and its cluster file."""
    jobs = synthetic.generate_workload("heavy", nodes=24, days=21, seed=1)
    rows = (
        f"{number}|{job.user}|{job.nodes}|{job.time_limit_s // 60}|{job.submit}|{job.submit}|"
        f"{job.submit + job.run_s}|COMPLETED\n"
        for number, job in enumerate(jobs, start=1)
    )
    log, cluster = folder / "busy.psv", folder / "busy.toml"
    log.write_text(HEADER + "".join(rows))
    cluster.write_text('[cluster]\nname = "busy"\nnodes = 24\n')
    return log, cluster
