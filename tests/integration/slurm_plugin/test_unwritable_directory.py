"""A chain whose directory takes no file any more goes on, and says why it is short of something."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.support.patient import wait_until
from tests.support.slurm_plugin.fakes import FakeSlurm, Link
from tests.support.slurm_plugin.unwritable import REASONS, build_namespace

SCRIPT = "#!/bin/sh\necho link $MIRAGE_LINK after ${MIRAGE_PREV_JOBID:-none}\n"
WAITS = "#!/bin/sh\ntouch $HOME/ready\nuntil [ -e $HOME/end ]; do sleep 0.05; done\n"
Make = Callable[..., Link]


@pytest.fixture
def make(slurm: FakeSlurm, shell: list[str]) -> Make:
    def submit(kind: str, script: str = SCRIPT, *words: str) -> Link:
        slurm.script(script)
        link = Link.submitted(slurm, shell, "--mirage-chain=4", *words, "job.sh")
        return dataclasses.replace(link, shell=[*build_namespace(link.chain, kind), *shell])

    return submit


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_each_link_submits_the_next_all_the_same(make: Make, kind: str) -> None:
    link = make(kind)
    for index in (1, 2, 3):
        job = 100 + index
        link.slurm.job_is(job, "RUNNING", start=1000)
        done = link.run(index)
        link.slurm.job_is(job, "COMPLETED", start=1000, end=2000)
        before = f"{job - 1}" if index > 1 else "none"
        assert (done.returncode, done.stdout.decode()) == (0, f"link {index} after {before}\n")
        assert done.stderr.count(b"\n") == 1, done.stderr
        line = done.stderr.decode().rstrip()
        assert line.startswith(f"mirage: {link.chain} cannot be written ({REASONS[kind]}): ")
        assert f"--dependency=afterany:{job}" in link.slurm.calls()[-1].argv
        assert len(link.slurm.calls()) == index + 1, "none is submitted twice"


@pytest.mark.parametrize("says", ["sbatch: error: QOSMaxSubmitJobPerUserLimit", ""])
def test_a_reason_is_given_where_no_file_takes_it(make: Make, says: str) -> None:
    """The directory becomes read-only as the script runs; sbatch had refused before that."""
    link = make("writable", "#!/bin/sh\nmount -o remount,ro,bind $MIRAGE_DIR\n")
    link.slurm.answers(stderr=f"{says}\n" if says else "", code=1)
    done = link.run()
    lines = done.stderr.decode().splitlines()
    why = says or "sbatch ended with 1 and said nothing"
    assert [line.partition(";")[0] for line in lines] == [
        f"mirage: link 2 is not in the queue yet: {why}"
    ] * 2


def test_a_directory_that_becomes_read_only_in_a_link_costs_no_standby(make: Make) -> None:
    body = "mount -o remount,ro,bind $MIRAGE_DIR\necho 0 >$HOME/../sbatch.code\n"
    link = make("writable", f"#!/bin/sh\n{body}")
    link.slurm.answers(code=1)
    done = link.run()
    assert len(link.slurm.calls()) == 3
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv
    assert len(done.stderr.splitlines()) == 1, "what sbatch had said at the start"


def test_a_link_waits_for_a_running_one_of_which_no_file_tells(make: Make) -> None:
    """Neither link 2 nor link 3 could write that it has begun."""
    link = make("read-only", WAITS)
    link.slurm.sleeps_briefly()
    for index in (1, 2):
        link.slurm.has_queued(100 + index, f"mirage:{link.chain.name}:{index}")
    link.slurm.job_is(102, "RUNNING", start=1000)
    process = link.start(3)
    wait_until(lambda: link.slurm.count_looks() > 2, "no look")
    ready = link.slurm.root / "home" / "ready"
    assert not ready.exists()
    link.slurm.job_is(102, "COMPLETED", start=1000, end=2000)
    (link.slurm.root / "home" / "end").touch()
    _, err = process.communicate(timeout=60)
    assert ready.exists()
    assert b"waits for job 102, an earlier link that still runs" in err, err


@pytest.mark.parametrize("index", [2, 3])
def test_a_link_leaves_its_place_to_one_that_runs(make: Make, index: int) -> None:
    link = make("read-only")
    link.slurm.has_queued(150, f"mirage:{link.chain.name}:{index}")
    link.slurm.job_is(150, "RUNNING", start=1000)
    done = link.run(2)
    assert (done.returncode, done.stdout) == (0, b"")
    assert f"link {index} runs as job 150; the script is not run".encode() in done.stderr


def test_a_cancelled_link_takes_its_standby_back(make: Make) -> None:
    """Nothing in the directory tells the next link of it."""
    link = make("read-only", WAITS)
    process = link.start(1)
    wait_until((link.slurm.root / "home" / "ready").exists)
    link.slurm.job_is(101, "CANCELLED")
    link.signal_job(process, "TERM")
    process.communicate(timeout=60)
    assert "102" in (link.slurm.root / "scancelled").read_text().split()
    assert len(link.slurm.calls()) == 2


def test_a_link_whose_end_ends_the_chain_leaves_no_standby(make: Make) -> None:
    link = make("read-only", "#!/bin/sh\nexit 1\n", "--mirage-continue=TIMEOUT")
    link.run()
    assert "102" in (link.slurm.root / "scancelled").read_text().split()
