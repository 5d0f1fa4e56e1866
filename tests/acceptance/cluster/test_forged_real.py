"""bob on the service's host, who sees its command lines and writes rows into his jobs' texts.

On the real Slurm nothing of what he writes is ever a job of the queue or a record of accounting.
"""

import os
import pwd
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mirage.domain.job import Job, JobId
from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.cli.command_runner import PLAIN_ANSWERS
from mirage.slurm.clients.query_gate import BackoffSettings
from tests.acceptance.cluster import old_calls
from tests.acceptance.cluster.forger import Forger, Lie, at_work, waiting_job
from tests.support.cluster.slurm_rig import TWO_NODES, put_on_path, submit
from tests.support.slurm_testbed import Testbed

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

# On 5e998b7 two looks of five at the queue believed him, and one of ten at accounting: sixty of the
# first and twice sixty of the second show that. FORGER_SWEEP=1 takes all that the issue asks for.
LOOKS, LOOKS_AT_ACCOUNTING = (500, 150) if os.environ.get("FORGER_SWEEP") else (60, 60)
OLD_CALL_EVERY = 20
MARK, BOBS_MARK = "mirage:alicealice:2", "mirage:bobbobbobb:2"
NOBODYS = 999_999
"""The id of a job that does not exist."""
QUICK = BackoffSettings(slow_s=600, first_pause_s=0, longest_pause_s=0)
"""A busy host's slow answers are no reason to look less often here."""

True_ = tuple[int, int, int, str, str]
"""Of a job: id, submit time, uid, user, account."""


@dataclass
class Scene:
    """alice has two jobs that fill the cluster, one that waits and one that was cancelled."""

    testbed: Testbed
    cluster: SlurmCli
    waiting: JobId
    cancelled: JobId
    began: int
    before: list[Job] = field(default_factory=list)
    """What queue and accounting said before bob began."""

    @property
    def window(self) -> tuple[int, int]:
        return self.began - 600, self.began + 86_400

    def lies(self) -> list[Lie]:
        at, alice, bob = self.began, uid("alice"), uid("bob")
        own = waiting_job(self.testbed)
        told = {job.job_id: job.submit for job in self.cluster.fetch_queue()}
        true_submit = told[self.waiting]
        return [
            Lie(self.waiting, at, bob, "bob", BOBS_MARK),
            Lie(self.waiting, true_submit, alice, "alice", "mirage:alicealice:3"),
            Lie(self.cancelled, told[self.cancelled], alice, "alice", BOBS_MARK),
            Lie(JobId(NOBODYS), at, alice, "alice", "mirage:alicealice:4"),
            Lie(own, told[own], alice, "alice", "mirage:alicealice:5"),
            Lie(own, at, None, "", ""),
        ]


def uid(user: str) -> int:
    return pwd.getpwnam(user).pw_uid


@pytest.fixture
def scene(slurm_host: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    slurm_host.up(TWO_NODES)
    slurm_host.cancel_all()
    monkeypatch.setenv("PATH", put_on_path(tmp_path, "mirage"))
    running = [submit(slurm_host) for _ in range(2)]
    slurm_host.wait_until(
        lambda: {slurm_host.state(job) for job in running} == {"RUNNING"}, 60, "two jobs to run"
    )
    waiting, cancelled = (submit(slurm_host, f"--comment={MARK}") for _ in range(2))
    slurm_host.run(["scancel", str(cancelled)], user="alice")
    cluster = SlurmCli(timeout_s=120, backoff=QUICK)
    made = Scene(slurm_host, cluster, waiting, cancelled, int(time.time()))

    def recorded() -> bool:
        found = {job.job_id: job for job in cluster.fetch_history(*made.window)}
        made.before = [*found.values(), *cluster.fetch_queue()]
        return {waiting, cancelled} <= found.keys() and found[cancelled].comment == MARK

    slurm_host.wait_until(recorded, 60, "alice's jobs in accounting")
    yield made
    slurm_host.cancel_all()


def queue_without_texts(testbed: Testbed) -> set[True_]:
    """What slurmctld says by a question in whose answer nobody can write."""
    fields = ",".join(
        f"{name}:|" for name in ("JobID", "SubmitTime", "UserID", "UserName", "Account")
    )
    argv = ["squeue", "--noheader", "--all", "--states=all", f"--Format={fields}"]
    return _true(testbed.run(argv, env=PLAIN_ANSWERS).stdout)


def records_without_texts(testbed: Testbed, which: Sequence[str]) -> set[True_]:
    argv = ["sacct", "-n", "-X", "-D", "-p", "--format=JobIDRaw,Submit,UID,User,Account", *which]
    return _true(testbed.run(argv, env=PLAIN_ANSWERS).stdout)


def _true(answer: str) -> set[True_]:
    rows = [line.split("|")[:5] for line in answer.splitlines()]
    return {(int(row[0]), int(row[1]), int(row[2]), row[3], row[4]) for row in rows}


def told(job: Job) -> True_:
    assert job.uid is not None
    return job.job_id, job.submit, job.uid, job.user, job.account


@dataclass
class Looks:
    """Looks at one thing, each between two true answers, and what was wrong in them."""

    scene: Scene
    look: Callable[[], Iterable[Job]]
    true: Callable[[], set[True_]]
    old_call: Callable[[], set[old_calls.Owner]]
    believed: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    old_believed: int = 0

    def take(self, count: int) -> None:
        before = self.true()
        for number in range(count):
            if number % OLD_CALL_EVERY == 0:
                self.call_as_once(before)
            jobs: Collection[Job] | None = None
            try:
                jobs = list(self.look())
            except ClusterUnavailable:
                self.lost.append(number)
            after = self.true()
            if jobs is not None:
                self._judge(number, jobs, before, after)
            before = after

    def call_as_once(self, before: set[True_]) -> None:
        found = self.old_call()
        known = {(job, owner) for job, _, owner, *_ in before | self.true()}
        self.old_believed += bool(old_calls.untrue(found, known))

    def _judge(
        self, number: int, jobs: Collection[Job], before: set[True_], after: set[True_]
    ) -> None:
        found = Counter(self._told(job, before | after) for job in jobs)
        wrong = {row for row, times in found.items() if times > 1 or row not in before | after}
        wrong |= (before & after) - found.keys()
        texts = [job for job in jobs if job.user == "alice" and not self._alices(job)]
        self.believed += [f"look {number}: {sorted(wrong)} {texts}"] if wrong or texts else []

    def _told(self, job: Job, true: set[True_]) -> True_:
        """Accounting has the account beside texts: of his own records bob can spoil it."""
        row = told(job)
        own = job.user == "bob" and not job.account
        return next((other for other in true if own and other[:4] == row[:4]), row)

    def _alices(self, job: Job) -> bool:
        """Whether all its texts are hers."""
        known = [other for other in self.scene.before if other.job_id == job.job_id]
        names = ("name", "comment", "submit_line")
        return all(getattr(job, n) in {getattr(other, n) for other in known} for n in names)

    def prove(self) -> None:
        assert self.believed == []
        in_a_row = [number for number in self.lost if number - 1 in self.lost]
        assert in_a_row == [], "no look is lost for more than a tick"
        # Were this bob too slow, the looks would prove nothing.
        self.scene.testbed.wait_until(self._was_believed, 600, "bob to be believed as once")

    def _was_believed(self) -> bool:
        if not self.old_believed:
            self.call_as_once(self.true())
        return self.old_believed > 0


def was_at_work(forger: Forger, looks: int) -> None:
    did = forger.did
    assert did["updates"] > looks, did
    assert did["environ_refused"] > 0, did
    assert did["environ_read"] == 0, did


def test_no_row_of_the_queue_is_bobs(scene: Scene) -> None:
    testbed, cluster = scene.testbed, scene.cluster
    with at_work(testbed, scene.lies()) as forger:
        looks = Looks(
            scene,
            cluster.fetch_queue,
            lambda: queue_without_texts(testbed),
            lambda: old_calls.list_queue(testbed),
        )
        looks.take(LOOKS)
        looks.prove()
    was_at_work(forger, LOOKS)
    assert forger.did["squeue"] >= LOOKS, forger.did


def test_no_record_of_accounting_is_bobs(scene: Scene) -> None:
    """bob has the separator here, so his rows come; they are told from Slurm's, and an alarm says
    so. alice's own texts stay hers in each look."""
    testbed, cluster = scene.testbed, scene.cluster
    span = [f"--starttime=uts{scene.window[0]}", f"--endtime=uts{scene.window[1]}"]
    with at_work(testbed, scene.lies()) as forger:
        ids = [JobId(job) for job, *_ in queue_without_texts(testbed)]
        named = [*ids, JobId(NOBODYS)]
        in_window = Looks(
            scene,
            lambda: cluster.fetch_history(*scene.window),
            lambda: records_without_texts(testbed, ["--allusers", *span]),
            lambda: old_calls.records(testbed),
        )
        by_id = Looks(
            scene,
            lambda: cluster.fetch_job_records(named),
            lambda: records_without_texts(testbed, [f"--jobs={','.join(map(str, ids))}"]),
            lambda: old_calls.records(testbed),
        )
        for looks in (in_window, by_id):
            looks.take(LOOKS_AT_ACCOUNTING)
            looks.prove()
    was_at_work(forger, 2 * LOOKS_AT_ACCOUNTING)
    did = forger.did
    assert min(did["sacct"], did["separators"], did["records"]) >= LOOKS_AT_ACCOUNTING, did
    assert did["submissions"] > 0, did
    assert cluster.alarms.take_alarms(), "what he tried is told"
