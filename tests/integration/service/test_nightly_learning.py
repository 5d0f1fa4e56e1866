"""The service's own schedule of learning: one process a night, which never touches the worker."""

import signal
import sys
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mirage.database.schema.engine import Store
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.nightly_learning import READER, NightlyLearning, compute_next_start
from mirage.service.worker import Worker
from tests.support.patient import wait_until
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import NOW, WrittenCluster

DAY = 86400
Lines = list[MutableMapping[str, Any]]
NOTE = """
import os, sys
with open(sys.argv[1], "a") as file:
    niceness, score = os.nice(0), open("/proc/self/oom_score_adj").read().strip()
    file.write(f"{os.getpid()} {niceness} {score}\\n")
print("learned nothing")
"""
STAY = f"""{NOTE}
import signal, subprocess, time
sys.stdout.flush()
child = subprocess.Popen(["sleep", "3600"])
with open(sys.argv[1] + ".child", "w") as file:
    file.write(f"{{child.pid}}\\n")
time.sleep(3600)
"""


class Night:
    """A schedule whose command notes each of its runs."""

    def __init__(self, folder: Path, program: str) -> None:
        self.file = folder / "runs"
        self.learning = NightlyLearning([sys.executable, "-c", program, str(self.file)])
        self.at = NOW
        self.learning.run_tick(self.at)

    def pass_night(self) -> None:
        """Tick each quarter of an hour until the next night's start has passed by an hour."""
        until = compute_next_start(self.at) + 3600
        while self.at < until:
            self.at += 900
            self.learning.run_tick(self.at)

    def runs(self) -> list[list[str]]:
        if not self.file.exists():
            return []
        text = self.file.read_text()
        return [line.split() for line in text.splitlines()]

    def wait_for_runs(self, count: int) -> None:
        wait_until(lambda: len(self.runs()) == count, f"not {count} runs")


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured


@contextmanager
def scheduled(folder: Path, program: str) -> Iterator[Night]:
    night = Night(folder, program)
    try:
        yield night
    finally:
        night.learning.end()
        # Else the end of this process may be logged within the next test.
        for thread in threading.enumerate():
            if thread.name == READER:
                thread.join()


def wait_for_ends(lines: Lines, count: int) -> list[object]:
    """The exit codes of what ended."""

    def list_codes() -> list[object]:
        return [line["code"] for line in lines if line["event"] == "learning has ended"]

    wait_until(lambda: len(list_codes()) == count, "it does not end")
    return list_codes()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_each_night_has_one_run_whose_output_is_in_the_log(tmp_path: Path, lines: Lines) -> None:
    with scheduled(tmp_path, NOTE) as night:
        for count in (1, 2):
            night.pass_night()
            assert wait_for_ends(lines, count) == [0] * count
            assert len(night.runs()) == count
        assert len({pid for pid, *_ in night.runs()}) == 2
    said = [line["line"] for line in lines if line["event"] == "learning"]
    assert said == ["learned nothing"] * 2


def test_it_has_the_lowest_priority_and_is_the_first_to_go(tmp_path: Path) -> None:
    """The program reads both again and again until they are set: right after its start."""
    score = "open('/proc/self/oom_score_adj').read().strip()"
    until_set = f"while os.nice(0) < 19 or {score} != '1000': time.sleep(0.01)"
    program = f"import os, time\n{until_set}\n{NOTE}"
    with scheduled(tmp_path, program) as night:
        night.pass_night()
        night.wait_for_runs(1)
        ((_, niceness, score),) = night.runs()
        assert (niceness, score) == ("19", "1000")


def test_never_do_two_run(tmp_path: Path, lines: Lines) -> None:
    with scheduled(tmp_path, STAY) as night:
        night.pass_night()
        night.wait_for_runs(1)
        night.pass_night()
        assert [line["event"] for line in lines][-1].startswith("learning is not started")
        assert len(night.runs()) == 1


def test_it_ends_with_the_service_and_so_does_what_it_has_started(tmp_path: Path) -> None:
    with scheduled(tmp_path, STAY) as night:
        night.pass_night()
        note = tmp_path / "runs.child"
        wait_until(lambda: note.exists() and note.read_text().endswith("\n"), "no child")
        pids = [int(night.runs()[0][0]), int(note.read_text())]
        assert all(map(is_alive, pids))
        night.learning.end()
        wait_until(lambda: not any(map(is_alive, pids)), "they live on")


@pytest.mark.parametrize("program", ["import os; os.abort()", "raise SystemExit(3)"])
def test_a_crash_is_said_and_the_next_night_comes(
    tmp_path: Path, lines: Lines, program: str
) -> None:
    with scheduled(tmp_path, program) as night:
        night.pass_night()
        (code,) = wait_for_ends(lines, 1)
        assert code in {-signal.SIGABRT, 3}
        night.pass_night()
        wait_for_ends(lines, 2)
    assert {line["log_level"] for line in lines if "ended" in str(line["event"])} == {"warning"}


def test_a_program_that_is_not_there_is_said(lines: Lines) -> None:
    learning = NightlyLearning(["/no/such/program"])
    learning.run_tick(NOW)
    learning.run_tick(NOW + DAY)
    assert lines[-1]["event"] == "learning cannot be started"
    learning.end()


def test_what_nobody_could_read_is_not_logged_and_stops_nothing(
    tmp_path: Path, lines: Lines
) -> None:
    program = "import sys\nfor n in range(50000): print('\\x1b[31m', n)"
    with scheduled(tmp_path, program) as night:
        night.pass_night()
        assert wait_for_ends(lines, 1) == [0]
    said = [str(line["line"]) for line in lines if line["event"] == "learning"]
    assert len(said) == 1000
    assert not any("\x1b" in text for text in said)
    assert lines[-1]["left_out"] == 49000


def test_of_two_workers_the_one_with_the_lease_starts_it(
    acting_store: Store, tmp_path: Path
) -> None:
    cluster = WrittenCluster()
    nights = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        nights.append(Night(tmp_path / name, NOTE))
    settings = DecisionSettings(get_policy=Always, default_policy="always")
    one, two = (
        Worker(acting_store, cluster, 1, settings=settings, learning=night.learning)
        for night in nights
    )
    two._holder = "another host"
    while cluster.at < compute_next_start(NOW) + 3600:
        cluster.at += 1800
        one.run_tick()
        two.run_tick()
    nights[0].wait_for_runs(1)
    nights[0].learning.end()
    nights[1].learning.end()
    assert nights[1].runs() == []
