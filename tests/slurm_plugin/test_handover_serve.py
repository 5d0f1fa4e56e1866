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
from functools import partial

import pytest

from tests.slurm_plugin.real_chains import Alice, RealChain
from tests.slurm_plugin.test_handover_real import PROGRAMS
from tests.slurm_testbed import Testbed, TestbedSettings, python_for_users

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(120)]

LINK_S = 9.0
FIRST_S, NEXT_S = 4, 9
"""bob's first job ends while link 1 serves; his next takes that node unless link 2 is eligible."""


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
                with urllib.request.urlopen(url, timeout=2) as answer:
                    self.answered[answer.read().decode()] += 1
            except OSError:
                if self.answered:  # before the first link is up nobody can answer
                    self.failed.append(time.monotonic())
                time.sleep(0.02)

    def outage_s(self) -> float:
        return self.failed[-1] - self.failed[0] if self.failed else 0.0


@pytest.fixture(scope="module")
def clients(slurm_host: Testbed) -> Iterator[dict[str, Client]]:
    slurm_host.up(TestbedSettings())
    slurm_host.cancel_all()
    with Alice.at_home(slurm_host) as alice:
        python = python_for_users()[0]
        body = f"exec {python} {PROGRAMS}/serving_link.py {LINK_S}"
        made = {}
        for name, pair in (("mirage", "gpu01,gpu02"), ("reactive", "gpu03,gpu04")):
            others = ",".join(f"gpu{n:02}" for n in range(1, 9) if f"gpu{n:02}" not in pair)
            where = ("--exclusive", f"--exclude={others}")
            # Age counts in minutes here: who is in line before whom goes by id and niceness.
            bob = partial(slurm_host.sbatch, *where, "--time=5", user="bob")
            bob(run=f"sleep {FIRST_S}")
            bob("--begin=now+6", run=f"sleep {NEXT_S}")
            chain = alice.submit(name, body, style="serve", options=where)
            chain.until(lambda chain=chain: chain.job(2) > 0, "the standby")
            if name == "mirage":
                chain.free_standby(2)
            bob("--nice=1", run=f"sleep {NEXT_S}")
            made[name] = Client(chain)
            made[name].start()
        try:
            for client in made.values():
                client.chain.until(
                    lambda client=client: client.answered["2"] >= 20, "answers of link 2"
                )
            yield made
        finally:
            for client in made.values():
                client.enough.set()
                client.join()


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
    assert mirage.answered["1"] >= 20
    assert reactive.answered["1"] >= 20
    assert mirage.failed == []
    assert reactive.outage_s() > 2


def test_the_old_server_drains_before_it_ends(clients: dict[str, Client]) -> None:
    chain = clients["mirage"].chain
    chain.until(lambda: (chain.dir / "closed.1").exists(), "the end of link 1")
    address = (chain.dir / "handover" / "address").stat()
    assert (chain.dir / "closed.1").stat().st_mtime >= address.st_mtime + 0.5
    assert "handed-over" in chain.get("handover/verdict/1")
