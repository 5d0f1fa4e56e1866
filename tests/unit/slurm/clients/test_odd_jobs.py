"""One user's odd jobs blind nobody: each tick reads everybody else, and acts on what it reads."""

from collections.abc import Callable
from dataclasses import asdict

import pytest
from structlog.testing import capture_logs

from mirage.database.events import audit
from mirage.database.jobs import job_history
from mirage.database.operations import clusters, reports
from mirage.database.operations.demotions import Demotion, find_place
from mirage.database.schema.engine import Store
from mirage.domain.decision import Decision, Forecast, Mode, PolicyView
from mirage.domain.job import Job, JobId
from mirage.domain.ports import SimplePolicy
from mirage.policies.rules.lead_rules import decide_by_lead
from mirage.provision.control import kill_switch
from mirage.provision.control.kill_switch import Way
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.polling.history_reader import SKIPPED_EVENT, WINDOW_TRIES
from mirage.service.worker import Worker
from mirage.slurm.commands import squeue
from tests.support.cluster.commands import FakeCommands
from tests.support.cluster.queue_texts import cells, text
from tests.support.patient import PATIENCE_S
from tests.support.provision.scene import Always
from tests.unit.slurm.clients.test_unread_rows import HELPFORMAT, TEXTS, Clocked, records

MALLORY = 1666
ODD = (
    "gpu:a b:1",
    "gpu:x:y:z:1",
    "gpu:9999999T",
    "gpu:-1",
    "gpu::::",
    "gpu:(a:1",
    "gpu:\u0661",
    "gpu:a=b=c",
    "gpu:" + "9" * 400,
    "\ngpu:\n:1",
    "gpu:1,,gpu:a b:2",
    "N/A,gpu",
)
MOVE_TARGET = squeue.build_move_target_argv(JobId(12))[-1].partition("=")[2]
HELD = {"State": "PENDING", "Reason": "JobHeldUser", "PriorityLong": "0", "NodeList": ""}
HELD |= {"StartTime": "N/A", "EndTime": "N/A", "EligibleTime": "N/A", "TimeLimit": "INVALID"}


def odd_row(number: int) -> list[str]:
    """A held job of which each field that its user can write is odd."""
    one = ODD[number % len(ODD)]
    asked = dict.fromkeys(("tres-per-node", "tres-per-job", "tres-per-task"), one)
    asked |= {"tres-per-socket": one, "tres-alloc": f"cpu=1,energy=16E,gres/{one}"}
    texts = dict.fromkeys(("Name", "Comment", "Account", "QOS", "Partition"), f"{one}\n7|,")
    texts = {name: value.replace("|", "!") for name, value in texts.items()}
    own = {"UserName": "mallory", "UserID": str(MALLORY), "Dependency": one.replace("|", "")}
    return cells(JobID=str(number), **(HELD | asked | texts | own))


def plain_rows(owners: int) -> list[list[str]]:
    return [cells(JobID=str(n), UserID=str(1000 + n)) for n in range(1, owners + 1)]


def worker(store: Store, cluster: Clocked) -> Worker:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        clusters.set_mode(tx, cluster_id, Mode.ACT)
    return Worker(
        store,
        cluster,
        cluster_id,
        settings=DecisionSettings(get_policy=Always, default_policy="always"),
    )


def stored(store: Store) -> dict[JobId, Job]:
    with store.read() as tx:
        return {job.job_id: job for job in job_history.list_jobs(tx, 1, limit=2000)}


@pytest.fixture
def cluster(commands: FakeCommands) -> Clocked:
    for name in ("sinfo", "scontrol"):
        commands.answers(name, "")
    commands.answers("sacct", records(), helpformat=HELPFORMAT, texts=TEXTS)
    return Clocked(timeout_s=PATIENCE_S)


@pytest.mark.parametrize(("odd", "plain"), [(12, 22), (1000, 9)])
def test_every_tick_reads_the_others_beside_the_odd_jobs_of_one_user(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store, odd: int, plain: int
) -> None:
    commands.answers("squeue", text([*map(odd_row, range(101, 101 + odd)), *plain_rows(plain)]))
    loop = worker(sqlite_store, cluster)
    for tick in range(3):
        cluster.at += 60 * tick
        loop.run_tick()
    found = stored(sqlite_store)
    assert {job_id for job_id in found if job_id < 100} == {*range(1, plain + 1)}
    assert [found[JobId(n)].gpus for n in range(1, plain + 1)] == [2] * plain
    assert len(found) == odd + plain, "each odd job is there, too"
    assert found[JobId(101)].gpus is None, "its GPUs are not known, and not 0"


def test_the_first_window_of_a_new_database_is_passed_as_well(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store
) -> None:
    rows = [{"JobIDRaw": str(n), "JobID": str(n), "NCPUS": "x", "UID": str(n)} for n in range(9)]
    commands.answers("squeue", text(plain_rows(3)))
    commands.answers("sacct", records(*rows), helpformat=HELPFORMAT, texts=TEXTS)
    loop = worker(sqlite_store, cluster)
    for _ in range(WINDOW_TRIES):
        loop.run_tick()
        cluster.at += 1300
    with sqlite_store.read() as tx:
        assert SKIPPED_EVENT in [entry.event for entry in audit.list_entries(tx, 1)]
        assert clusters.read_history_until(tx, 1) is not None


def test_a_window_of_accounting_that_never_reads_is_passed_and_audited(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store
) -> None:
    rows = [{"JobIDRaw": str(n), "JobID": str(n), "NCPUS": "x", "UID": str(n)} for n in range(9)]
    commands.answers("squeue", text(plain_rows(3)))
    loop = worker(sqlite_store, cluster)
    loop.run_tick()
    with sqlite_store.read() as tx:
        began = clusters.read_history_until(tx, 1)
    assert began is not None
    commands.answers("sacct", records(*rows), helpformat=HELPFORMAT, texts=TEXTS)
    cluster.at += 300
    for _ in range(WINDOW_TRIES - 1):
        loop.run_tick()
        cluster.at += 1300
    with sqlite_store.read() as tx:
        assert clusters.read_history_until(tx, 1) == began, "it is asked again first"
        assert SKIPPED_EVENT not in [entry.event for entry in audit.list_entries(tx, 1)]
    with capture_logs() as lines:
        loop.run_tick()
    assert "accounting does not read" in [line["event"] for line in lines]
    with sqlite_store.read() as tx:
        until = clusters.read_history_until(tx, 1)
        (entry,) = [each for each in audit.list_entries(tx, 1) if each.event == SKIPPED_EVENT]
    assert until is not None
    assert until > began
    assert (entry.detail["since"], entry.detail["until"]) == (began - 3600, until)
    assert "does not read" in str(entry.detail["error"])
    commands.answers("sacct", records({}), helpformat=HELPFORMAT, texts=TEXTS)
    cluster.at += 1300
    loop.run_tick()
    assert JobId(7) in stored(sqlite_store), "what comes later is read"


class Leads(SimplePolicy):
    """Wants the release half an hour before the predecessor's end."""

    name = "leads"

    def decide(self, view: PolicyView) -> Decision:
        forecast = Forecast(p10_s=1350, p50_s=1800, p90_s=2250)
        return decide_by_lead(view, 1800, forecast, self.name)


class Planned:
    """Alice's chain, whose standby Mirage has planned; then the switch is pulled."""

    def __init__(self, commands: FakeCommands, cluster: Clocked, store: Store) -> None:
        self.commands, self.cluster, self.store = commands, cluster, store
        self.dependency = "afterany:11"
        now = cluster.read_clock()
        self.times = {"SubmitTime": str(now - 600), "EligibleTime": str(now - 600)}
        self.times |= {"StartTime": str(now - 300), "EndTime": str(now + 3300)}
        with store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, "lab")
            clusters.set_mode(tx, cluster_id, Mode.ACT)
        settings = DecisionSettings(get_policy=lambda _: Leads(), default_policy="leads")
        self.worker = Worker(store, cluster, cluster_id, settings=settings)
        self.tick()
        (self.plan,) = self.moves()
        self.dependency = self.plan.removeprefix("Dependency=")
        self.tick(60)

    def stop(self) -> None:
        with self.store.begin() as tx:
            now = self.cluster.read_clock()
            kill_switch.pull_switch(tx, 1, Way.REST, now=now, actor="root")

    def demote(self) -> None:
        until = self.cluster.read_clock() + 3600
        place = find_place(1001, "gpu", 1)
        found = Demotion(place=place, user="alice", error_s=1e5, bound_s=43200, until=until)
        with self.store.begin() as tx:
            reports.put_report(tx, 1, reports.DEMOTIONS, {"places": [asdict(found)]}, at=until)

    def rows(self, **standby: str) -> str:
        mark = "mirage:style=concurrent,max-overlap=4:00:00 mirage:abcd1234:"
        first = cells(JobID="11", Comment=f"{mark}1", **self.times)
        waits = {"State": "PENDING", "StartTime": "N/A", "EndTime": "N/A", "NodeList": ""}
        waits |= {"Dependency": self.dependency, "EligibleTime": "N/A", "Reason": "Dependency"}
        waits |= {"Comment": f"{mark}2"}
        second = cells(JobID="12", **(self.times | waits | standby))
        return text([first, second])

    def tick(self, after_s: int = 0, queue: str | None = None, **standby: str) -> None:
        self.cluster.at += after_s
        rows = self.rows(**standby)
        uid = standby.get("UserID", "1001")
        fields = {"JobID": "12", "UserID": uid, "State": "PENDING", "Reason": "Dependency"}
        fields |= {"PriorityLong": "1", "Dependency": self.dependency}
        names = [field.partition(":")[0] for field in MOVE_TARGET.split(",")]
        alone = text([[fields.get(name, "") for name in names]])
        asked = {"--jobs=11,12": rows, "--jobs=12": alone}
        self.commands.answers("squeue", rows if queue is None else queue, by_argument=asked)
        self.worker.run_tick()

    def moves(self) -> list[str]:
        calls = self.commands.calls("scontrol")
        return [word for argv in calls for word in argv if word.startswith("Dependency=")]


@pytest.mark.parametrize("end", [Planned.stop, Planned.demote])
def test_a_plan_is_taken_back_though_the_queue_does_not_read(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store, end: Callable[[Planned], None]
) -> None:
    chain = Planned(commands, cluster, sqlite_store)
    end(chain)
    assert "after:11+" in chain.plan
    chain.tick(60, queue="slurm has another form now|\n" * 30)
    assert chain.moves() == [chain.plan, "Dependency=afterany:11"]
    chain.dependency = "afterany:11"
    chain.tick(60, queue="slurm has another form now|\n" * 30)
    assert len(chain.moves()) == 2, "once it is back nothing is done"


@pytest.mark.parametrize(
    "standby",
    [{"UserID": "1002"}, {"Comment": "not a link any more"}, {"State": "RUNNING"}],
    ids=["owner", "mark", "state"],
)
def test_a_standby_that_is_not_as_it_was_is_left_alone(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store, standby: dict[str, str]
) -> None:
    chain = Planned(commands, cluster, sqlite_store)
    chain.stop()
    chain.tick(60, queue="slurm has another form now|\n" * 30, **standby)
    assert chain.moves() == [chain.plan]
