"""`mirage episodes` as a process: the table, its report, and what it says to bad input."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from mirage.judging.table.episode_table import EpisodeTable
from tests.support.episodes import small
from tests.support.mirage_process import MIRAGE, environment, run
from tests.support.traces import write_parquet_trace

CLUSTER = """\
[cluster]
name = "small"
nodes = 8

[scheduler]
PriorityWeightAge = 1000
PriorityMaxAge = "1-0"
MaxJobsPU = 3
"""
PARTITIONS = """
[[partitions]]
PartitionName = "day"
Nodes = "0-7"
MaxTime = "1-00:00:00"

[[partitions]]
PartitionName = "all"

[[qos]]
Name = "normal"

[[qos]]
Name = "high"
Priority = 100
"""
PAIR = ("--nodes", "1", "--time-limit", "1:00:00", "--every", "4h")
SPAN = ("--from", "2023-11-20T20:00", "--until", "2023-11-22")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    jobs = [j for j in small.trace(1) if j.cancel_at is None]
    return write_parquet_trace(tmp_path / "trace.parquet", jobs)


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "C.toml"
    path.write_text(CLUSTER)
    return path


def test_the_table_and_its_report(trace: Path, cluster_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "E.npz"
    words = ("--cluster", str(cluster_file), "--out", str(out), "--jobs", "1", "--json")
    answer = run("episodes", str(trace), *words, *PAIR, *SPAN)
    assert (answer.code, answer.err) == (0, "")
    told = json.loads(answer.out)
    assert (told["episodes"], told["instants"], told["left_out"]) == (7, 49, 0)
    assert told["episodes_per_s"] > 0
    by_class = told["reactive"]["by_class"]
    assert sum(figures["episodes"] for figures in by_class.values()) == 7
    table = EpisodeTable.load(out)
    assert told["reactive"]["interruption_h"] == pytest.approx(table.outcome_h[:, -1].mean())
    assert table.metadata.trace == "trace.parquet"
    judged = run("evaluate", str(out), "--policy", "quantile", "--json", "-")
    assert judged.code == 0, judged.err
    all_of_them = json.loads(judged.out)["policies"]["reactive"]["all"]
    assert all_of_them["interruption_h"] == pytest.approx(told["reactive"]["interruption_h"])


def test_another_load_is_another_table_and_the_twin_knows_it(
    trace: Path, cluster_file: Path, tmp_path: Path
) -> None:
    """The same jobs are replayed for the twin's questions, which come later."""
    words = ("--cluster", str(cluster_file), "--jobs", "1", *PAIR, *SPAN)
    waited_h, pairs = [], set()
    for load in ("0.5", "1", "3"):
        out = tmp_path / f"E{load}.npz"
        answer = run("episodes", str(trace), *words, "--load", load, "--out", str(out))
        assert answer.code == 0, answer.err
        table = EpisodeTable.load(out)
        assert table.metadata.load == float(load)
        waited_h.append(table.outcome_h[:, -1].mean())
        pairs.add(table.metadata.pair)
    assert waited_h[0] < waited_h[1] < waited_h[2]
    assert len(pairs) == 3
    foretold = []
    for load in ("1", "3"):
        asked = run("evaluate", str(tmp_path / f"E{load}.npz"), "--policy", "twin")
        assert asked.code == 0, asked.err
        assert ("at 3 times the trace's load" in asked.err) is (load == "3")
        twins = EpisodeTable.load(tmp_path / f"E{load}.npz").twins
        assert twins is not None
        foretold.append(twins.get_forecasts(np.array([0])).mean())
    assert foretold[0] < foretold[1]
    for load in ("0", "nan", "99"):
        refused = run("episodes", str(trace), *words, "--load", load, "--out", "E.npz")
        assert refused.code == 2
        assert "Traceback" not in refused.err


def test_start_points_by_default(trace: Path, cluster_file: Path, tmp_path: Path) -> None:
    """Six days into a trace of 60 h there is nothing left."""
    words = ("--cluster", str(cluster_file), "--out", str(tmp_path / "E.npz"))
    answer = run("episodes", str(trace), *words, *PAIR)
    assert answer.code == 2
    assert "there is no start point" in answer.err
    answer = run("episodes", str(trace), *words, *PAIR, "--from", "2023-11-22")
    assert answer.code == 0, answer.err
    made = EpisodeTable.load(tmp_path / "E.npz")
    last = max(j.submit for j in small.trace(1) if j.cancel_at is None)
    assert made.metadata.until == last - 2 * 3600
    assert "reactive interruption" in answer.out
    assert "these waits are too short" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "9"), "does not fit partition day of 8"),
        (("--time-limit", "soon"), "--time-limit soon: not a time"),
        (("--every", "0"), "--every 0: not a time"),
        (("--from", "Monday"), "--from Monday: not a date"),
        (("--from", "2030-11-20", "--until", "2030-11-22"), "has submissions of 2023-11-20 to "),
        (("--from", "2010-11-20", "--until", "2010-11-22"), "has submissions of 2023-11-20 to "),
        (("--out", "/nowhere/E.npz"), "/nowhere/E.npz cannot be written"),
        (("--cluster", "none.toml"), "none.toml"),
        (("--time-limit", "48:00:00"), "over MaxTime=1-00:00:00 of partition day"),
        (("--partition", "gpu"), "no partition 'gpu': choose one of day, all"),
        (("--partition", "all", "--qos", "gold"), "no QOS 'gold'"),
        (("--user", "nobody"), "the trace has no job of user 'nobody'"),
        (("--account", "none"), "the trace has no job in account 'none'"),
    ],
)
def test_bad_input_is_told_in_a_sentence(
    trace: Path, cluster_file: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    given = ("--cluster", str(cluster_file), "--out", str(tmp_path / "E.npz"), *PAIR, *SPAN)
    with cluster_file.open("a") as file:
        file.write(PARTITIONS)
    before = sorted(tmp_path.iterdir())
    answer = run("episodes", str(trace), *given, *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert sorted(tmp_path.iterdir()) == before


def test_where_no_start_point_gives_an_episode_nothing_is_left(
    trace: Path, cluster_file: Path, tmp_path: Path
) -> None:
    """All nodes are gone for good before the first start point."""
    with cluster_file.open("a") as file:
        file.write('[[outages]]\nStartTime = 2023-11-20T00:00:00Z\nState = "DOWN"\nNodes = "0-7"\n')
    before = sorted(tmp_path.iterdir())
    words = ("--cluster", str(cluster_file), "--out", str(tmp_path / "E.npz"), *PAIR, *SPAN)
    answer = run("episodes", str(trace), *words)
    assert (answer.code, answer.out) == (2, "")
    assert "not one of 7 start points gave an episode" in answer.err
    assert sorted(tmp_path.iterdir()) == before


def test_the_pair_goes_where_it_is_told(trace: Path, cluster_file: Path, tmp_path: Path) -> None:
    with cluster_file.open("a") as file:
        file.write(PARTITIONS)
    out = tmp_path / "E.npz"
    words = ("--cluster", str(cluster_file), "--out", str(out), *PAIR, *SPAN)
    more = ("--partition", "all", "--qos", "high", "--user", "u1")
    answer = run("episodes", str(trace), *words, *more)
    assert answer.code == 0, answer.err
    told = EpisodeTable.load(out).metadata
    assert (told.partition, told.qos, told.user, told.account) == ("all", "high", "u1", "")


def test_ctrl_c_says_how_much_is_kept(trace: Path, cluster_file: Path, tmp_path: Path) -> None:
    words = ("--cluster", str(cluster_file), "--out", str(tmp_path / "E.npz"), "--jobs", "1", *SPAN)
    pair = ("--nodes", "1", "--time-limit", "4:00:00", "--every", "1m")
    with subprocess.Popen(
        # Where the tests run behind nohup or in the background, SIGINT is ignored: not here.
        ["/usr/bin/env", "--default-signal=INT", *MIRAGE, "episodes", str(trace), *words, *pair],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 100
        while not list(tmp_path.glob(".E.npz.*/block-*")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    (line,) = err.strip().splitlines()
    assert re.fullmatch(
        r"mirage: (\d*[1-9]\d*) of 1680 start points are kept: run the same command again to go on",
        line,
    )
