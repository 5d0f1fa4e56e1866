"""The lease, what Slurm's answers mean to it, and the class around it."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import wait_until

UNKNOWN = "Invalid job id specified"
TAKER = """
import sys; sys.path.insert(0, sys.argv[1])
import mirage_lease
leases = mirage_lease.Leases(sys.argv[2])
print("ready", flush=True); sys.stdin.readline()
won = [n for n in range(1, 31) if leases.take(n, mirage_lease.Holder(1, sys.argv[3], 0))]
print(*won)
"""


def test_of_takers_that_race_one_wins_each_lease(chain_dir: Path) -> None:
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", TAKER, PLUGIN, chain_dir, str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for job in range(4)
    ]
    for taker in takers:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
    won = [taker.communicate("go\n", timeout=60)[0].split() for taker in takers]
    assert sorted(int(n) for numbers in won for n in numbers) == list(range(1, 31))
    for job, numbers in enumerate(won):
        for n in numbers:
            assert (chain_dir / "handover" / "lease" / n).read_text() == f"1 {job} 0\n"


@pytest.mark.parametrize(
    ("says", "means"),
    [
        ({"text": "RUNNING   0\\n"}, "there"),
        ({"text": "COMPLETING  0\\n"}, "there"),
        ({"text": "SUSPENDED  0\\n"}, "there"),
        ({"text": "SOMETHING_NEW  0\\n"}, "there"),
        ({"text": "COMPLETED  0\\n"}, "ended"),
        ({"text": "CANCELLED  0\\n"}, "cancelled"),
        ({"text": "TIMEOUT  3\\n"}, "ended"),
        ({"text": "NODE_FAIL  0\\n"}, "cut off"),
        ({"text": "PENDING  1\\n"}, "cut off"),
        ({"text": "EXPEDITING  1\\n"}, "cut off"),
        ({"text": "RUNNING  1\\n"}, "cut off"),
        ({"text": "COMPLETED  0\\nRUNNING  0\\n"}, "there"),
        ({"text": "", "stderr": f"slurm_load_jobs error: {UNKNOWN}", "code": 1}, "cut off"),
        ({"text": "", "stderr": "Unable to contact slurm controller", "code": 1}, None),
        ({"text": "COMPLETED  0\\n", "code": 1}, None),
        ({"text": "COMPLETED\\n"}, None),
        ({"text": "<html>\\n"}, None),
        ({"text": ""}, None),
    ],
)  # fmt: skip
def test_slurms_word(
    squeue: Any,
    module: Any,
    monkeypatch: pytest.MonkeyPatch,
    says: dict[str, Any],
    means: str | None,
) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    squeue(**says)
    lease = importlib.import_module("mirage_lease")
    watch = importlib.import_module("mirage_watch")
    assert watch.ask_slurm(lease.Holder(1, "101", 0)) == means


def test_a_squeue_that_is_not_there_or_hangs_says_nothing(
    squeue: Any, module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lease = importlib.import_module("mirage_lease")
    watch = importlib.import_module("mirage_watch")
    monkeypatch.setattr(watch, "ASK_TIMEOUT_S", 0.2)
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\nexec sleep 100\n")
    (tmp_path / "bin" / "squeue").chmod(0o755)
    began = time.monotonic()
    assert watch.ask_slurm(lease.Holder(1, "101", 0)) is None
    assert time.monotonic() - began < 60
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert watch.ask_slurm(lease.Holder(1, "101", 0)) is None


def test_a_moving_beat_saves_asking_and_outweighs_an_amnesic_slurm(
    squeue: Any, link: Any, chain_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    first = link(1, stale_s=15)
    assert first.begin()
    squeue("", stderr="Invalid job id specified", code=1)
    lease = importlib.import_module("mirage_lease")
    watch = importlib.import_module("mirage_watch").Watch(
        lease.Leases(str(chain_dir)), lease.Leases(str(chain_dir)).read_newest(), 15
    )
    for _ in range(20):
        now_s += 5
        first.should_release()
        assert not watch.is_gone()
    for _ in range(20):
        now_s += 5
        if watch.is_gone():
            return
    pytest.fail("still there, long after its last beat")


def test_a_requeued_run_is_another_holder_and_waits_for_its_own_past(
    squeue: Any, link: Any, chain_dir: Path
) -> None:
    assert link(1).begin()
    squeue("RUNNING  1\\n")
    again = link(1, restart=1, stale_s=0.2)
    assert again.begin()
    assert again.token == "2-101.1"


def test_a_requeued_holder_whose_job_its_successor_cancelled_ends_no_chain(
    squeue: Any, link: Any, chain_dir: Path
) -> None:
    assert link(1).begin()
    squeue("CANCELLED  1\\n")
    (chain_dir / "passed.1").write_text("101\n")
    second = link(2, stale_s=0.2)
    assert second.begin()
    assert second.token == "2-102.0"
    assert not (chain_dir / "stop").exists()


def test_a_link_leaves_where_a_later_one_has_had_the_lease(link: Any, chain_dir: Path) -> None:
    second = link(2)
    assert second.begin()
    second.release()
    late = link(1, restart=1)
    assert not late.begin()
    assert (chain_dir / "handover" / "verdict" / "1").read_text().startswith("superseded")
    assert late.token is None


@pytest.mark.parametrize("marker", ["done", "stop"])
def test_a_chain_that_is_over_gives_no_lease(link: Any, chain_dir: Path, marker: str) -> None:
    (chain_dir / marker).touch()
    assert not link(1).begin()
    assert (chain_dir / "handover" / "verdict" / "1").read_text().startswith(marker)


def test_patience_ends_in_waiting_or_in_leaving(squeue: Any, link: Any, chain_dir: Path) -> None:
    squeue("RUNNING  0\\n")
    first = link(1)
    assert first.begin()
    assert not link(2, style="switch", patience_s=0.2, on_timeout="exit").begin()
    assert (chain_dir / "handover" / "verdict" / "2").read_text().startswith("timed-out")
    assert not list((chain_dir / "handover" / "request").iterdir())
    first.check()
    waiting = link(3, style="switch", patience_s=0.2)
    began = threading.Thread(target=waiting.begin)
    began.start()
    verdict = chain_dir / "handover" / "verdict" / "3"
    wait_until(lambda: verdict.exists() and "for the end of link 1" in verdict.read_text())
    first.release()
    began.join(60)
    assert waiting.token == "2-103.0"


@pytest.mark.parametrize(("min_runtime", "floor_s"), [("600", 600), ("0", 240), ("", 60)])
def test_a_holder_is_not_asked_before_it_has_worked_for_its_floor(
    squeue: Any,
    link: Any,
    chain_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    min_runtime: str,
    floor_s: int,
) -> None:
    """Its work began when it first took the lease, which it has taken back since. In a chain of an
    older wrapper no floor is known."""
    squeue("RUNNING  0\\n")
    for folder, instant in (("began", 1_000_000), ("deadline", 1_002_400)):
        (chain_dir / folder).mkdir()
        (chain_dir / folder / "1").write_text(f"{instant}\n")
    assert link(1).begin()
    lease = chain_dir / "handover" / "lease"
    (lease / "2").write_text((lease / "1").read_text())
    os.utime(lease / "1", (time.time() - floor_s + 60,) * 2)
    monkeypatch.setenv("MIRAGE_FLOOR", min_runtime)
    asks = link(2, style="switch", patience_s=10, on_timeout="exit", poll_s=1)
    looks: list[float] = []  # one a second; what subprocess sleeps between them takes no time
    monkeypatch.setattr(time, "sleep", looks.append)
    monkeypatch.setattr(time, "monotonic", lambda: float(looks.count(1.0)))
    assert not asks.begin()
    young_s = 60 if min_runtime else 0
    assert young_s + 10 - 3 <= looks.count(1.0) <= young_s + 10 + 3


def test_a_request_that_nobody_renews_does_not_count(link: Any, chain_dir: Path) -> None:
    first = link(1)
    assert first.begin()
    (chain_dir / "handover" / "request" / "2").write_text("host 1 1\n")
    (chain_dir / "handover" / "request" / "1").write_text("of this link\n")
    for n in range(5):
        time.sleep(0.02)
        (chain_dir / "handover" / "request" / "1").write_text(f"renewed {n}\n")
        assert not first.should_release()
    (chain_dir / "handover" / "request" / "2").write_text("host 1 2\n")
    time.sleep(0.02)
    assert first.should_release()
    assert first.reason == "link 2 asks"


def test_the_time_limit_asks_too(link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRAGE_DEADLINE", str(int(time.time()) + 300))
    first = link(1, save_s=1000)
    assert first.begin()
    real = time.monotonic
    for passed_s, asks in ((0, False), (200, False), (290, True)):  # a tenth is the most
        monkeypatch.setattr(time, "monotonic", lambda passed_s=passed_s: real() + passed_s)
        assert first.should_release() is asks
    assert first.reason == "the time limit is near"
    assert first.release(), "nobody asked: nobody is waited for"


def test_looking_is_almost_free(link: Any) -> None:
    first = link(1, poll_s=3600)
    assert first.begin()
    first.should_release()
    began = time.process_time()
    for _ in range(10_000):
        first.should_release()
    assert (time.process_time() - began) / 10_000 < 20e-6


def test_an_error_while_saving_leaves_the_last_checkpoint(link: Any, tmp_path: Path) -> None:
    first = link(1)
    assert first.begin()
    target = tmp_path / "model"
    with first.checkpoint(target) as name:
        Path(name).write_text("good")
    with pytest.raises(ZeroDivisionError), first.checkpoint(target) as name:
        raise ZeroDivisionError(Path(name).write_text("half"))
    assert target.read_text() == "good"
    assert first.latest() == str(target)
    assert [path.name for path in tmp_path.iterdir() if "mirage-" in path.name] == []


def test_a_folder_is_a_checkpoint_too_under_a_new_name(
    module: Any, link: Any, tmp_path: Path
) -> None:
    first = link(1)
    assert first.begin()
    for step in (1, 2):
        with first.checkpoint(tmp_path / f"step-{step}") as name:
            Path(name).mkdir()
            (Path(name) / "shard").write_text(str(step))
    again = first.checkpoint(tmp_path / "step-2")
    with pytest.raises(module.HandoverError, match="name it by step"), again:
        pass
    first.release()
    second = link(2)
    assert second.begin()
    assert second.latest() == str(tmp_path / "step-2")
    with pytest.raises(module.LeaseLost):
        first.check()


def test_outside_a_chain_nothing_waits_and_checkpoints_are_whole(
    module: Any, tmp_path: Path
) -> None:
    alone = module.Handover()
    assert alone.begin()
    assert not alone.should_release()
    with alone.checkpoint(tmp_path / "model") as name:
        Path(name).write_text("good")
    assert alone.latest() is None
    assert alone.release()
    alone.done()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_job_that_a_link_submitted_gets_no_part_in_the_chain(
    module: Any, link: Any, chain_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("jobs", "started"):
        (chain_dir / folder).mkdir()
        (chain_dir / folder / "1").write_text("101\n")
    assert link(1).begin()
    monkeypatch.setenv("SLURM_JOB_ID", "555")
    with pytest.raises(module.NotALink, match=r"job 555 is no link .* link 1 is job 101"):
        module.Handover(str(chain_dir))
    monkeypatch.setenv("SLURM_JOB_ID", "101")
    assert module.Handover(str(chain_dir)).adopt(), "a step of the link's job has its id"


def test_a_lease_that_cannot_be_read_is_nobodys_to_take(
    module: Any, link: Any, chain_dir: Path
) -> None:
    assert link(1).begin()
    (chain_dir / "handover" / "lease" / "1").write_text("")
    with pytest.raises(module.HandoverError, match="cannot be read"):
        link(2).begin()


def test_a_directory_of_others_or_open_to_them_is_refused(
    module: Any, chain_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "pointer").symlink_to(chain_dir)
    with pytest.raises(module.HandoverError, match="no directory of yours"):
        module.Handover(str(tmp_path / "pointer"))
    chain_dir.chmod(0o777)
    with pytest.raises(module.HandoverError, match="others may write"):
        module.Handover(str(chain_dir))
    chain_dir.chmod(0o700)
    (chain_dir / "handover").symlink_to(tmp_path)
    with pytest.raises(module.HandoverError, match="no directory of yours"):
        module.Handover(str(chain_dir))
