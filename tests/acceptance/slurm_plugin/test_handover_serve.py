"""A server as a chain in serve style beside the same server as a reactive chain, on a real Slurm.

Both live on two nodes that bob's jobs fill as they come free, and both are asked all the while.
Mirage's part, freeing the standby in time, is done here by alice; the rest is as shipped.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.acceptance.slurm_plugin.test_handover_real import PROGRAMS
from tests.support.slurm_plugin.real_chains import Alice, RealChain
from tests.support.slurm_testbed import Testbed, TestbedSettings, python_for_users

pytestmark = pytest.mark.slurm

ENOUGH = 30
"""Answers, or failures, until the next thing happens: nothing here goes by the clock."""


@dataclass
class Client(threading.Thread):
    """Asks without a pause, each time where handover/address says, and keeps what came of it."""

    chain: RealChain
    answered: Counter[str] = field(default_factory=Counter)
    failed: list[float] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(name=f"client of {self.chain.name}")

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        address = self.chain.dir / "handover" / "address"
        while not self.enough.is_set():
            try:
                url = f"http://{address.read_text().strip()}/"
                with urllib.request.urlopen(url, timeout=60) as answer:
                    self.answered[answer.read().decode()] += 1
            except OSError:
                if self.answered:  # before the first link is up nobody can answer
                    self.failed.append(time.monotonic())
                time.sleep(0.02)

    def outage_s(self) -> float:
        return self.failed[-1] - self.failed[0] if self.failed else 0.0


@dataclass
class Pair:
    """Two nodes: a link serves on one, bob's first job is on the other, his next are in line."""

    testbed: Testbed
    where: tuple[str, ...]
    jobs: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, testbed: Testbed, *nodes: int) -> Pair:
        others = ",".join(f"gpu{n:02}" for n in range(1, 9) if n not in nodes)
        return cls(testbed, ("--exclusive", f"--exclude={others}", "--time=5"))

    def bob(self, *words: str) -> int:
        self.jobs.append(self.testbed.sbatch(*self.where, *words, user="bob"))
        return len(self.jobs) - 1

    def end(self, which: int) -> None:
        self.testbed.run(["scancel", str(self.jobs[which])])

    def release(self, which: int) -> None:
        self.testbed.run(["scontrol", "release", str(self.jobs[which])])

    def runs(self, which: int) -> bool:
        return self.testbed.state(self.jobs[which]) == "RUNNING"


@pytest.fixture(scope="module")
def clients(slurm_host: Testbed) -> Iterator[dict[str, Client]]:
    slurm_host.up(TestbedSettings())
    slurm_host.cancel_all()
    with Alice.at_home(slurm_host) as alice:
        pairs = {"mirage": Pair.of(slurm_host, 1, 2), "reactive": Pair.of(slurm_host, 3, 4)}
        made = {name: begun(alice, name, pair) for name, pair in pairs.items()}
        try:
            played(made, pairs)
            yield made
        finally:
            for client in made.values():
                client.enough.set()
                client.join()


def begun(alice: Alice, name: str, pair: Pair) -> Client:
    # On a busy host minutes may pass until the standby is freed: bob's last job gains age, and the
    # standby none. It is so nice that no age of these minutes matters.
    pair.bob()
    pair.bob("--hold")
    body = f"exec {python_for_users()[0]} {PROGRAMS}/serving_link.py"
    chain = alice.submit(name, body, style="serve", options=pair.where)
    chain.until(lambda: chain.job(2) > 0, "the standby")
    pair.bob("--nice=100000")
    client = Client(chain)
    client.start()
    return client


def played(clients: dict[str, Client], pairs: dict[str, Pair]) -> None:
    mirage, reactive = clients["mirage"], clients["reactive"]
    first, held, last = range(3)
    for client in clients.values():
        client.chain.until(lambda client=client: client.answered["1"] >= ENOUGH, "answers")
    mirage.chain.free_standby(2)
    for pair in pairs.values():
        pair.end(first)
    # Who was eligible by then has the node: link 2 with Mirage, else bob's last job.
    mirage.chain.until(lambda: mirage.answered["2"] >= ENOUGH, "answers of link 2")
    reactive.chain.until(lambda: pairs["reactive"].runs(last), "bob's last job")
    pairs["reactive"].release(held)
    (reactive.chain.dir.parent / "limit.1").touch()
    reactive.chain.until(lambda: pairs["reactive"].runs(held), "bob's job ahead of link 2")
    reactive.chain.until(lambda: len(reactive.failed) >= ENOUGH, "what users see of the wait")
    pairs["reactive"].end(last)
    reactive.chain.until(lambda: reactive.answered["2"] >= ENOUGH, "answers of link 2")


def test_no_request_fails_with_mirage_and_many_without(
    clients: dict[str, Client], capsys: pytest.CaptureFixture[str]
) -> None:
    mirage, reactive = clients["mirage"], clients["reactive"]
    with capsys.disabled():
        for name, client in clients.items():
            print(  # noqa: T201
                f"\n{name}: {client.answered.total()} requests answered, {len(client.failed)}"
                f" failed, {client.outage_s():.1f} s without service",
                end="",
            )
    assert mirage.failed == []
    assert len(reactive.failed) >= ENOUGH


def test_the_old_server_drains_before_it_ends(clients: dict[str, Client]) -> None:
    chain = clients["mirage"].chain
    chain.until((chain.dir / "closed.1").exists, "the end of link 1")
    address = (chain.dir / "handover" / "address").stat()
    assert (chain.dir / "closed.1").stat().st_mtime >= address.st_mtime + 0.5
    assert "handed-over" in chain.get("handover/verdict/1")
