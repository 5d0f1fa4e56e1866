"""One writer at a time on the real Slurm, with no service.

Looks and questions are counted, by a sleep and a squeue that say so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.log_lines import read_whole_lines
from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_testbed import Testbed, TestbedSettings

pytestmark = pytest.mark.slurm

HOUR_S = 3600
WRITES = """#!/bin/bash
#SBATCH --nodes=1 --output=chain.out --open-mode=append
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}" | tee -a events
until [ -e go.$MIRAGE_LINK ]; do echo "line $MIRAGE_LINK"; sleep 1; done
echo "end $MIRAGE_LINK" | tee -a events
"""
SQUEUE = """#!/bin/sh
said=$(/usr/bin/squeue "$@")
code=$?
echo "asked $* -> $said" >>{home}/events
[ -z "$said" ] || printf '%s\\n' "$said"
exit $code
"""
SLEEP = """#!/bin/sh
[ "$1" != 2 ] || echo look >>{home}/events
exec /usr/bin/sleep "$@"
"""
ANY_OVERLAP = "--mirage-max-overlap=1-0"
NO_RETURN = "--mirage-returns=0"
LIMIT_MIN = 300


@pytest.fixture(scope="module", params=[60, 1], ids="x{}".format)
def cluster(request: pytest.FixtureRequest, slurm_host: Testbed) -> Testbed:
    # Ten real seconds, in which a cancelled link calls sbatch: also on a busy machine.
    extra = (f"KillWait={10 * request.param}",)
    slurm_host.up(TestbedSettings(speed=request.param, nodes=4, extra=extra), fresh=True)
    return slurm_host


@pytest.fixture
def alice(cluster: Testbed) -> Iterator[Alice]:
    with Alice.at_home(cluster, "turns", WRITES) as made:
        for name, text in (("squeue", SQUEUE), ("sleep", SLEEP)):
            made.write(f"plugin/{name}", text.format(home=made.home))
            (made.home / "plugin" / name).chmod(0o755)
        yield made


def events(alice: Alice) -> list[str]:
    return read_whole_lines(alice.home / "events")


def start_both(alice: Alice, *words: str) -> tuple[int, int]:
    """Two links of a chain, the second of which starts while the first has long to run."""
    done = alice.sbatch("--mirage-chain=4", f"--time={LIMIT_MIN}", NO_RETURN, *words, "link.sh")
    assert done.returncode == 0, done.stderr
    first, second = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")
    alice.free(second)
    alice.await_state(second, "RUNNING")
    return first, second


def await_wait(alice: Alice, link: int = 2) -> None:
    alice.until(lambda: alice.says(f"waits/{link}") is not None, f"link {link} to wait")
    looks = events(alice).count("look")
    alice.until(lambda: events(alice).count("look") > looks + 3, "looks", 600)


def await_end(alice: Alice, link: int = 2) -> None:
    """By its own word: in fast time slurmctld forgets a job within seconds."""
    alice.until(lambda: f"end {link}" in alice.lines(), f"the end of link {link}", 1200)


def writers(alice: Alice) -> list[str]:
    """The links that have written to the log, each as often as it took turns."""
    turns: list[str] = []
    for line in alice.output():
        words = line.split()
        if words[:1] in (["begin"], ["line"], ["end"]) and turns[-1:] != [words[1]]:
            turns.append(words[1])
    return turns


def test_lines_of_two_links_never_interleave(alice: Alice) -> None:
    first, _ = start_both(alice, ANY_OVERLAP)
    await_wait(alice)
    asked = sum(f"-j {first} " in event for event in events(alice))
    looks = events(alice).count("look")
    alice.until(lambda: events(alice).count("look") > looks + 10, "more looks", 600)
    assert sum(f"-j {first} " in event for event in events(alice)) == asked, "no question meanwhile"
    assert writers(alice) == ["1"]

    alice.let_end(1, 2)
    await_end(alice)
    assert writers(alice) == ["1", "2"]
    assert alice.lines()[-2:] == ["begin 2 after COMPLETED", "end 2"]
    seen = events(alice)
    wrote, begun = seen.index("end 1"), seen.index("begin 2 after COMPLETED")
    answers = [(i, event) for i, event in enumerate(seen) if f"-j {first} " in event]
    over = next(i for i, event in answers if "-> COMPLETED" in event)
    assert wrote < over < begun
    assert "look" not in seen[over:begun], "it begins at the look that shows the end"
    since = [i for i, event in answers if wrote < i <= over]
    assert ("look", "look") not in itertools.pairwise(seen[since[0] : over]), "each look asks"


def test_a_concurrent_chain_runs_both_at_once(alice: Alice) -> None:
    start_both(alice, ANY_OVERLAP, "--mirage-style=concurrent")
    alice.until(lambda: writers(alice)[:4] == ["1", "2", "1", "2"], "both to write", 600)
    alice.let_end(1, 2)
    await_end(alice)


def test_scancel_of_the_running_link_ends_the_chain(alice: Alice) -> None:
    first, second = start_both(alice, ANY_OVERLAP)
    await_wait(alice)
    third = alice.job(3)
    alice.run("scancel", str(first))
    alice.until(lambda: alice.says("stop") == "link 1 was cancelled", "the end of the chain", 600)
    alice.await_empty_queue(600)
    assert writers(alice) == ["1"]
    assert "the script is not run" in (alice.says("log") or "")
    assert {second, third} & set(map(int, alice.run("squeue", "-h", "-o", "%A").split())) == set()


def test_scancel_of_the_waiting_link_is_scancel_of_a_standby(alice: Alice) -> None:
    first, second = start_both(alice, ANY_OVERLAP)
    await_wait(alice)
    third = alice.job(3)
    alice.run("scancel", str(second))
    alice.until(lambda: alice.says("jobs/2") not in {None, str(second)}, "another link 2", 600)
    anew = alice.job(2)
    held = alice.testbed.job(anew)["Dependency"]
    assert held == f"afterany:{first}(unfulfilled)"
    alice.until(lambda: str(anew) in alice.testbed.job(third)["Dependency"], "link 3", 600)
    assert (alice.says("stop"), alice.says("paused")) == (None, None)

    alice.free(anew)
    alice.await_state(anew, "RUNNING")
    await_wait(alice)
    alice.run("scancel", str(anew))
    alice.until(lambda: alice.says("paused") is not None, "the pause", 600)
    assert alice.says("paused") == "link 2 was cancelled twice before it began"
    alice.let_end(1)
    alice.await_empty_queue(600)
    assert writers(alice) == ["1"]


def test_a_predecessor_that_is_requeued_meanwhile_is_taken_over(alice: Alice) -> None:
    first, _ = start_both(alice, ANY_OVERLAP)
    await_wait(alice)
    alice.testbed.run(["scontrol", "requeue", str(first)])
    alice.until(lambda: "begin 2 after PENDING" in alice.lines(), "link 2", 600)
    assert f"took over from job {first}, which was requeued" in (alice.says("log") or "")
    alice.let_end(2)
    await_end(alice)
    assert writers(alice) == ["1", "2"]


def test_a_warning_signal_sends_the_waiting_link_back(alice: Alice) -> None:
    first, second = start_both(alice, ANY_OVERLAP, "--signal=B:USR1@270")
    await_wait(alice)
    began = int(alice.says("deadline/2") or 0) - 60 * LIMIT_MIN
    minutes = int(alice.testbed.now() - began) // 60 + 5
    alice.testbed.run(["scontrol", "update", f"JobId={second}", f"TimeLimit={minutes}"])
    alice.until(lambda: alice.says("jobs/2") not in {None, str(second)}, "another link 2", 600)
    anew = alice.job(2)
    assert alice.testbed.job(anew)["Dependency"] == f"afterany:{first}(unfulfilled)"
    said = "a signal (USR1) came before the script began"
    alice.until(lambda: said in (alice.says("log") or ""), "its word", 600)
    assert writers(alice) == ["1"]
    alice.let_end(1, 2)
    await_end(alice)
    assert writers(alice) == ["1", "2"]


def test_while_slurmctld_is_away_nobody_begins(alice: Alice) -> None:
    first, _ = start_both(alice, ANY_OVERLAP)
    await_wait(alice)
    alice.testbed.stop_ctld()
    try:
        alice.let_end(1, 2)
        alice.until(lambda: alice.says("ends/1") == "exit 0", "the end of link 1", 600)
        questions = sum(f"-j {first} " in event for event in events(alice))
        alice.until(
            lambda: sum(f"-j {first} " in event for event in events(alice)) > questions + 2,
            "questions without an answer",
            60 * 1200,  # each lasts as long as squeue tries to connect, in real time
        )
        assert alice.lines() == ["begin 1 after nothing", "end 1"]
    finally:
        alice.testbed.start_ctld()
    await_end(alice)
    assert writers(alice) == ["1", "2"]


@pytest.mark.parametrize("cluster", [60], ids="x{}".format, indirect=True)
def test_of_two_hours_the_last_quarter_may_overlap(alice: Alice) -> None:
    """Only in fast time. Slurm ends the first by its limit, and KillWait later it is over."""
    done = alice.sbatch("--mirage-chain=2", "--time=2:00:00", NO_RETURN, "link.sh")
    assert done.returncode == 0, done.stderr
    first, second = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")
    end = int(alice.says("deadline/1") or 0)
    alice.until(lambda: alice.testbed.now() > end - 1500, "25 minutes left", 2 * HOUR_S)
    alice.free(second)
    await_wait(alice)
    alice.let_end(2)
    alice.until(lambda: "end 2" in alice.lines(), "link 2", HOUR_S)
    assert writers(alice) == ["1", "2"]
    assert "begin 2 after TIMEOUT" in alice.lines()
    seen = events(alice)
    before = seen[: seen.index("begin 2 after TIMEOUT")]
    asked = [event for event in before if f"-j {first} " in event and "%T %S %e" in event]
    ends = [event for event in asked if "-> RUNNING" not in event]
    assert len(asked) - len(ends) <= 2 + 1500 // 300, asked
