"""bob forges rows while Mirage acts: nobody's job is moved but by its owner's own chain.

What he tried is in the audit. An Operator's service, and alice's own.
"""

import json
import pwd
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mirage.domain.job import JobId
from tests.acceptance.cluster import old_calls
from tests.acceptance.cluster.forger import Lie, at_work
from tests.support.identity.site import KEY, Site, end
from tests.support.slurm_testbed import Testbed, TestbedSettings

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

OPEN_SITE = TestbedSettings(
    nodes=2, extra=("AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={KEY}")
)
"""Everybody sees everybody's jobs, as at most sites: bob's texts are in alice's own answers too."""

TICKS = 20
NOBODYS = JobId(999_999)
_STANDING = ("JobState", "Dependency", "Comment", "JobName", "ReqNodeList", "UserId", "Nice")
FORGED = "forged answer"
"""The audit's word (mirage.service.worker)."""


@pytest.fixture
def site(slurm_host: Testbed) -> Iterator[Site]:
    made = Site.set_up(slurm_host, OPEN_SITE)
    try:
        yield made
    finally:
        made.strike()


@dataclass(frozen=True)
class Alices:
    """Jobs of alice's that are in no chain; none of them is Mirage's to touch."""

    running: JobId
    waiting: JobId
    also_waiting: JobId

    @classmethod
    def submit(cls, site: Site) -> "Alices":
        def one(*words: str) -> JobId:
            return JobId(site.testbed.sbatch("-t", "60", *words))

        running = one("-n1")
        site.testbed.wait_until(lambda: site.testbed.state(running) == "RUNNING", 60, "it to run")
        return cls(running, one("-N2", "--exclusive"), one("-N2", "--exclusive"))

    def lies(self, site: Site, alices_chain: str, bobs_chain: str) -> list[Lie]:
        alice, bob = pwd.getpwnam("alice").pw_uid, pwd.getpwnam("bob").pw_uid
        bobs_own = JobId(site.testbed.sbatch("-N2", "--exclusive", "-t", "5", user="bob"))
        at = {job: self._submitted(site, job) for job in (*self.all, bobs_own)}
        hers, his = f"mirage:{alices_chain}:", f"mirage:{bobs_chain}:"
        return [
            Lie(self.running, at[self.running], bob, "bob", f"{his}3"),
            Lie(self.waiting, at[self.waiting], bob, "bob", f"{his}4"),
            Lie(self.also_waiting, at[self.also_waiting], alice, "alice", f"{hers}3"),
            Lie(NOBODYS, at[self.running], alice, "alice", f"{hers}4"),
            Lie(bobs_own, at[bobs_own], alice, "alice", f"{hers}5"),
        ]

    @property
    def all(self) -> tuple[JobId, ...]:
        return self.running, self.waiting, self.also_waiting

    @staticmethod
    def _submitted(site: Site, job_id: JobId) -> int:
        argv = ["squeue", "-h", "-j", str(job_id), "-O", "SubmitTime:|"]
        shown = site.testbed.run(argv, env={"SLURM_TIME_FORMAT": "%s"}).stdout
        return int(shown.partition("|")[0])

    def standing(self, site: Site) -> list[dict[str, str]]:
        shown = [site.testbed.job(job) for job in self.all]
        held = [str(job["Priority"] == "0") for job in shown]
        return [
            {name: job.get(name, "") for name in _STANDING} | {"held": is_held}
            for job, is_held in zip(shown, held, strict=True)
        ]


def let_ticks_pass(site: Site, as_of: Callable[[], str | None]) -> None:
    seen: set[str] = set()

    def many() -> bool:
        told = as_of()
        seen.update([] if told is None else [told])
        return len(seen) > TICKS

    site.testbed.wait_until(many, 600, f"{TICKS} looks at the queue")


def is_believed(site: Site, call: Callable[[Testbed], set[old_calls.Owner]]) -> bool:
    """By a question as Mirage once put it: was bob fast enough?"""
    argv = ["squeue", "-h", "--states=all", "-O", "JobID:|,UserID:|"]
    found = call(site.testbed)
    lines = site.testbed.run(argv).stdout.splitlines()
    known = {(int(job), int(uid)) for job, uid, _ in (line.split("|") for line in lines)}
    return bool({(job, uid) for job, uid in found - known if job == NOBODYS or uid})


def entries(database: Path) -> list[dict[str, Any]]:
    names = ("event", "chain_id", "job_id", "detail")
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute(f"SELECT {', '.join(names)} FROM audit ORDER BY id")  # noqa: S608
        return [dict(zip(names, row, strict=True)) for row in rows]


def find_standby(site: Site, chain_id: str) -> JobId:
    """The chain's waiting job, as Slurm has it."""
    (found,) = (job for job in site.chain_jobs(chain_id) if site.testbed.state(job) == "PENDING")
    return JobId(found)


def is_held(site: Site, job_id: JobId) -> bool:
    return site.testbed.job(job_id)["Priority"] == "0"


def test_an_operators_service_moves_nobodys_job_for_bob(site: Site) -> None:
    site.start_service(history_s=1)
    site.mirage("mode", "act", user="mirage")
    chains = {user: site.submit_chain(user) for user in ("alice", "bob")}
    for user, chain_id in chains.items():
        site.testbed.wait_until(
            lambda c=chain_id, u=user: len(site.links(c, u)) == 2,  # type: ignore[misc]
            120,
            f"two links of {user}'s chain",
        )
    alices = Alices.submit(site)
    before, lies = alices.standing(site), alices.lies(site, chains["alice"], chains["bob"])
    her_standby, his_standby = (find_standby(site, chains[user]) for user in ("alice", "bob"))
    token = site.token("alice")
    hers = {link["job_id"] for link in site.links(chains["alice"], "alice")}

    def as_of() -> str | None:
        told: str | None = site.ask("GET", "/cluster", token).json().get("as_of")
        return told

    with at_work(site.testbed, lies) as forger:
        let_ticks_pass(site, as_of)
        site.mirage("chain", "pause", chains["alice"], user="alice")
        site.testbed.wait_until(lambda: is_held(site, her_standby), 120, "the hold of her standby")
        site.mirage("chain", "cancel", chains["bob"], user="bob")
        site.testbed.wait_until(
            lambda: site.testbed.state(his_standby) == "CANCELLED", 120, "the end of his standby"
        )
        let_ticks_pass(site, as_of)
        assert alices.standing(site) == before
        site.mirage("chain", "resume", chains["alice"], user="alice")
        site.testbed.wait_until(
            lambda: not is_held(site, her_standby), 120, "the release of her standby"
        )
        let_ticks_pass(site, as_of)
        assert alices.standing(site) == before
        for call in (old_calls.list_queue, old_calls.records):
            site.testbed.wait_until(
                lambda c=call: is_believed(site, c),  # type: ignore[misc]
                600,
                "bob to be believed as once",
            )
    assert {link["job_id"] for link in site.links(chains["alice"], "alice")} == hers
    # He may put jobs of his own into his own chain, and his lies hold its mark.
    his = {link["job_id"] for link in site.links(chains["bob"], "bob")}
    written = entries(site.root / "mirage" / "mirage.db")
    his |= {row["job_id"] for row in written if row["chain_id"] == chains["bob"]}
    assert his & {*alices.all, *hers, NOBODYS} == set()
    assert {row["job_id"] for row in written} & set(alices.all) == set()
    assert [row for row in written if row["event"] == FORGED], "what he tried"
    assert forger.did["updates"] > TICKS
    assert forger.did["environ_read"] == 0


@pytest.fixture
def own(site: Site) -> Iterator[Path]:
    """alice's own service, which acts; returns its state directory."""
    home = site.root / "alice"
    (home / ".config" / "mirage").mkdir(parents=True)
    (home / ".config" / "mirage" / "mirage.toml").write_text(
        '[cluster]\nname = "testbed"\n[polling]\nqueue_s = 1\nhistory_s = 1\n'
    )
    shutil.chown(home / ".config", "alice")
    state = home / ".local" / "state" / "mirage" / "service"
    with (site.root / "own.log").open("w") as log:
        process = site.popen("serve", "--user", user="alice", log=log, MIRAGE_URL="")
    try:
        site.testbed.wait_until(
            lambda: _answers(site, state, "readyz") is not None, 120, "alice's own service"
        )
        site.mirage("mode", "act", "--user", user="alice", MIRAGE_URL="")
        yield state
    finally:
        end(process)


def _answers(site: Site, state: Path, path: str) -> Any:
    words = ["curl", "-sf", "--unix-socket", str(state / "socket"), f"http://x/{path}"]
    done = site.testbed.run(words, user="alice", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def test_alices_own_service_moves_no_job_for_bob(site: Site, own: Path) -> None:
    chain = site.submit_chain("alice", MIRAGE_URL="")

    def links() -> set[int]:
        shown = _answers(site, own, f"api/v1/chains/{chain}")
        return {link["job_id"] for link in (shown or {}).get("links", [])}

    site.testbed.wait_until(lambda: len(links()) == 2, 120, "two links of her chain")
    alices = Alices.submit(site)
    before, lies, known = alices.standing(site), alices.lies(site, chain, "bobbobbobb"), links()

    hers = find_standby(site, chain)

    def as_of() -> str | None:
        shown = _answers(site, own, "api/v1/cluster")
        return None if shown is None else shown.get("as_of")

    with at_work(site.testbed, lies) as forger:
        let_ticks_pass(site, as_of)
        site.mirage("chain", "pause", chain, user="alice", MIRAGE_URL="")
        site.testbed.wait_until(lambda: is_held(site, hers), 120, "the hold of her standby")
        let_ticks_pass(site, as_of)
        assert alices.standing(site) == before
        site.mirage("chain", "cancel", chain, user="alice", MIRAGE_URL="")
        site.testbed.wait_until(
            lambda: site.testbed.state(hers) == "CANCELLED", 120, "the end of her standby"
        )
        let_ticks_pass(site, as_of)
        assert alices.standing(site) == before
        site.testbed.wait_until(
            lambda: is_believed(site, old_calls.list_queue), 600, "bob to be believed as once"
        )
    assert links() == known
    written = entries(own / "mirage.db")
    assert {row["job_id"] for row in written} & set(alices.all) == set()
    assert [row for row in written if row["event"] == FORGED], "what he tried"
    assert forger.did["updates"] > TICKS
    assert forger.did["environ_read"] == 0
