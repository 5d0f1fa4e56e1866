"""One bad row costs one row: it is counted, named once, and its chain is left where it is."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirage.database.chains import chains
from mirage.database.operations import clusters, telemetry
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState, LinkState
from mirage.domain.decision import Mode
from mirage.domain.job import JobId
from mirage.errors import ClusterUnavailable
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from tests.support.cluster.commands import FakeCommands
from tests.support.cluster.queue_texts import cells, text
from tests.support.cluster.restd import FakeRestd, serving_restd
from tests.support.patient import PATIENCE_S
from tests.support.provision.scene import Always
from tests.support.slurm.captured import answer

CHAIN = ChainId("abcd1234")
SETTINGS = "mirage:style=concurrent,max-overlap=4:00:00"
HELPFORMAT = answer("sacct-helpformat.txt")
FACTS = (
    *("JobIDRaw", "JobID", "User", "UID", "Partition", "QOS", "State", "Reason", "Priority"),
    *("Submit", "Eligible", "Start", "End", "Reserved", "TimelimitRaw", "NNodes", "NCPUS"),
    *("ReqTRES", "AllocTRES", "ExitCode", "NodeList"),
)
TEXTS = text([["JobIDRaw", "Submit", "UID", "Account", "JobName", "Comment", "SubmitLine"]])
RECORD = dict.fromkeys(FACTS, "") | {
    "JobIDRaw": "7",
    "JobID": "7",
    "User": "alice",
    "UID": "1001",
    "State": "COMPLETED",
    "Submit": "1700000000",
    "Start": "1700000100",
    "End": "1700000200",
    "NNodes": "1",
    "NCPUS": "8",
    "NodeList": "gpu01",
}


class Clocked(SlurmCli):
    """Slurm's commands, by a clock that the test moves."""

    at = 0

    def read_clock(self) -> int:
        return int(time.time()) + self.at


@pytest.fixture
def cluster() -> Clocked:
    return Clocked(timeout_s=PATIENCE_S)


def test_a_row_is_counted_and_named_once(commands: FakeCommands, cluster: SlurmCli) -> None:
    rows = [cells(JobID=str(n)) for n in range(1, 30)]
    rows[4] = cells(JobID="5", SubmitTime="soon")
    commands.answers("squeue", text(rows))
    with capture_logs() as said:
        for _ in range(3):
            queue = cluster.fetch_queue()
            assert len(queue) == 28
            assert queue.unread == {JobId(5)}
    (line,) = [entry for entry in said if "does not read" in entry["event"]]
    assert (line["command"], line["row"]) == ("squeue", "job '5'")
    assert "not a number" in line["error"]
    usage = cluster.get_usage()["squeue"]
    assert (usage.calls, usage.failures, usage.unread) == (3, 0, 3)


def test_gpus_that_do_not_read_are_told_in_one_line(
    commands: FakeCommands, cluster: SlurmCli
) -> None:
    rows = [cells(JobID=str(n)) for n in range(1, 30)]
    rows[4] = cells(JobID="5", **{"tres-alloc": "cpu=1", "tres-per-node": "gpu:a b:1"})
    rows[7] = cells(JobID="8", **{"tres-alloc": "cpu=1,gres/gpu=many"})
    commands.answers("squeue", text(rows))
    with capture_logs() as said:
        for _ in range(3):
            queue = cluster.fetch_queue()
            assert (len(queue), queue.unread) == (29, frozenset())
    assert [job.gpus for job in queue if job.job_id in {1, 5, 8}] == [2, None, None]
    (line,) = [entry for entry in said if "GPUs" in entry["event"]]
    assert (line["command"], line["jobs"], line["first"]) == ("squeue", 2, [5, 8])


def test_many_bad_rows_fill_no_log(commands: FakeCommands, cluster: SlurmCli) -> None:
    bad = [cells(JobID=str(n), SubmitTime="soon") for n in range(1, 131)]
    commands.answers("squeue", text([*bad, *(cells(JobID=str(n)) for n in range(200, 1500))]))
    with capture_logs() as said:
        for _ in range(3):
            assert len(cluster.fetch_queue().unread) == 130
    named = [entry["row"] for entry in said if "row" in entry]
    assert 0 < len(named) == len(set(named)) <= 20


def records(*rows: dict[str, str]) -> str:
    lines = ([*FACTS], *([(RECORD | row)[name] for name in FACTS] for row in rows))
    return text(lines)


def test_records_of_accounting(commands: FakeCommands, cluster: SlurmCli) -> None:
    bad: Sequence[dict[str, str]] = (
        {"JobIDRaw": "8", "JobID": "8", "NCPUS": "x"},
        {"JobIDRaw": "9", "JobID": "9", "UID": "alice"},
        {"JobIDRaw": "10", "JobID": "10", "NNodes": "0", "NodeList": "(null)"},
        {"JobIDRaw": "11", "JobID": "11", "State": "7?"},
    )
    commands.answers("sacct", records({}, *bad), helpformat=HELPFORMAT, texts=TEXTS)
    found = list(cluster.fetch_history(1, 2))
    assert [job.job_id for job in found] == [7]
    asked = cluster.fetch_job_records([JobId(n) for n in range(7, 13)])
    assert [job.job_id for job in asked] == [7]
    assert asked.unread == {8, 9, 10, 11}
    assert cluster.get_usage()["sacct"].unread == 8


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({"AllocTRES": "N/A=x"}, 0),
        ({"AllocTRES": "cpu=1,energy=16E,gres/gpu=2"}, 2),
        ({"AllocTRES": "cpu=1,gres/gpu=many"}, None),
        ({"ReqTRES": "cpu=1,gres/gpu=10995115178248372224"}, None),
        ({"ReqTRES": "cpu=1,gres/gpu:a b=1"}, 1),
    ],
)
def test_a_figure_of_accounting_that_does_not_read_costs_no_record(
    commands: FakeCommands, cluster: SlurmCli, fields: dict[str, str], gpus: int | None
) -> None:
    commands.answers("sacct", records(fields), helpformat=HELPFORMAT, texts=TEXTS)
    (job,) = cluster.fetch_history(1, 2)
    assert (job.job_id, job.cpus, job.gpus, job.memory_mib) == (7, 8, gpus, 0)
    assert cluster.get_usage()["sacct"].unread == 0


def test_many_bad_records_are_no_answer(commands: FakeCommands, cluster: SlurmCli) -> None:
    """Of another form, some as rows of another length, some by what stands in them."""
    good = [{"JobIDRaw": str(n), "JobID": str(n)} for n in range(100, 190)]
    bad = [
        {"JobIDRaw": str(n), "JobID": str(n), "NCPUS": "x", "UID": str(n)} for n in range(10, 15)
    ]
    header, _, rows = records(*bad, *good).partition("\n")
    short = text([[str(n), "", "7"] for n in range(1, 7)])
    whole = f"{header}\n{short}{rows}"
    commands.answers("sacct", whole, helpformat=HELPFORMAT, texts=TEXTS)
    with pytest.raises(ClusterUnavailable, match="11 of 101 rows, such as record '1': fields"):
        list(cluster.fetch_history(1, 2))
    rest = records(*good).removeprefix(f"{header}\n")
    commands.answers("sacct", f"{header}\n{short}{rest}", helpformat=HELPFORMAT, texts=TEXTS)
    assert len(list(cluster.fetch_history(1, 3))) == len(good)


def test_records_of_slurmrestd(tmp_path: Path) -> None:
    job = {"submit_time": 5, "user_id": 1001, "job_state": "PENDING", "node_count": 1}
    time_s = {"submission": 5, "start": 6, "end": 7}
    past = {"time": time_s, "state": {"current": "COMPLETED"}, "allocation_nodes": 1}
    node = {"state": "idle", "cpus": 8}
    fake = FakeRestd(tmp_path)
    with serving_restd(fake):
        slurm = Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S))
        shown: list[object] = [job | {"job_id": n} for n in range(1, 6)]
        shown += ["job", job | {"job_id": 6, "submit_time": "soon"}, job | {"job_id": "7; rm"}]
        fake.answers("/slurm/v0.0.38/jobs", {"errors": [], "jobs": shown})
        queue = slurm.fetch_queue()
        assert queue.job_id.tolist() == [1, 2, 3, 4, 5]
        assert queue.unread == {JobId(6)}
        told: list[object] = [past | {"job_id": 1}, past | {"job_id": 2, "allocation_nodes": 0}, 3]
        fake.answers("/slurmdb/v0.0.38/jobs", {"errors": [], "jobs": told})
        assert [record.job_id for record in slurm.fetch_history(1, 9)] == [1]
        assert slurm.fetch_job_records([JobId(1), JobId(2), JobId(3)]).unread == {JobId(2)}
        nodes = [node | {"name": "gpu01"}, node, node | {"name": "gpu02", "cpus": None}, None]
        fake.answers("/slurm/v0.0.38/nodes", {"errors": [], "nodes": nodes})
        assert [each.name for each in slurm.fetch_nodes()] == ["gpu01"]
        unread = {kind: usage.unread for kind, usage in slurm.get_usage().items() if usage.unread}
    assert unread == {"rest:jobs": 3, "rest:nodes": 3, "rest:accounting": 4}


def test_of_some_jobs_of_slurmrestd_one_that_does_not_read_costs_no_other(tmp_path: Path) -> None:
    job = {"submit_time": 5, "user_id": 1001, "job_state": "PENDING", "node_count": 1}
    gone = {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}], "jobs": []}
    fake = FakeRestd(tmp_path)
    with serving_restd(fake):
        slurm = Slurmrestd(RestHttp(fake.url, timeout_s=PATIENCE_S))
        fine: dict[str, object] = {"errors": []}
        fake.answers("/slurm/v0.0.38/job/7", fine | {"jobs": [job | {"job_id": 7}]})
        odd = {"job_id": 8, "submit_time": "soon"}
        fake.answers("/slurm/v0.0.38/job/8", fine | {"jobs": [job | odd]})
        fake.answers("/slurm/v0.0.38/job/9", gone, status=500)
        found = slurm.fetch_jobs([JobId(9), JobId(8), JobId(7)])
    assert found.job_id.tolist() == [7]
    assert found.unread == {JobId(8)}


class Chain:
    """Alice's: its first link runs, the second stands behind it, and the policy wants it freed."""

    def __init__(self, commands: FakeCommands, cluster: Clocked, store: Store) -> None:
        self.commands, self.cluster, self.store = commands, cluster, store
        with store.begin() as tx:
            self.cluster_id = clusters.ensure_cluster(tx, "lab")
            clusters.set_mode(tx, self.cluster_id, Mode.ACT)
        settings = DecisionSettings(get_policy=Always, default_policy="always")
        usage = cluster.get_usage
        self.worker = Worker(store, cluster, self.cluster_id, settings=settings, usage=usage)
        commands.answers("sacct", records(), helpformat=HELPFORMAT)
        commands.answers("sinfo", "")
        commands.answers("scontrol", "")

    def tick(self, after_s: int = 0, **standby: str) -> None:
        self.cluster.at += after_s
        now = self.cluster.read_clock()
        times = {"SubmitTime": str(now - 600), "EligibleTime": str(now - 600)}
        ran = {"StartTime": str(now - 300), "EndTime": str(now + 3300)}
        self._start = getattr(self, "_start", times | ran)
        first = cells(JobID="11", Comment=f"{SETTINGS} mirage:abcd1234:1", **self._start)
        waits = {"State": "PENDING", "StartTime": "N/A", "EndTime": "N/A", "NodeList": ""}
        told = {"Comment": f"{SETTINGS} mirage:abcd1234:2", "Dependency": "afterany:11"}
        told |= {"tres-alloc": "cpu=1"}
        second = cells(JobID="12", **(self._start | waits | told | standby))
        others = [cells(JobID=str(n), **self._start) for n in range(100, 110)]
        # What is asked right before a move.
        alone = text([["12", "1001", "", "PENDING", "Dependency", "1", "afterany:11(unfulfilled)"]])
        rows = text([first, second, *others])
        self.commands.answers("squeue", rows, by_argument={"--jobs=12": alone})
        self.worker.run_tick()

    def moves(self) -> int:
        return len(self.commands.calls("scontrol"))

    def links(self) -> list[LinkState]:
        with self.store.read() as tx:
            found = chains.find_chains(tx, 1, {CHAIN})
            assert {chain.state for chain in found.values()} == {ChainState.ACTIVE}
            return [link.state for link in chains.list_links(tx, 1, CHAIN)]


def test_its_job_is_not_gone_and_its_chain_is_not_moved(
    commands: FakeCommands, cluster: Clocked, sqlite_store: Store
) -> None:
    chain = Chain(commands, cluster, sqlite_store)
    with sqlite_store.begin() as tx:
        clusters.set_mode(tx, chain.cluster_id, Mode.SHADOW)
    chain.tick()
    with sqlite_store.begin() as tx:
        clusters.set_mode(tx, chain.cluster_id, Mode.ACT)
    asked = len(chain.commands.calls("sacct"))
    for _ in range(5):
        chain.tick(after_s=70, PriorityLong="high")
        assert chain.links() == [LinkState.RUNNING, LinkState.PENDING]
    assert chain.moves() == 0
    by_id = [argv for argv in commands.calls("sacct")[asked:] if any("--jobs" in a for a in argv)]
    assert by_id == [], "nobody asked accounting whether it has ended"
    with sqlite_store.read() as tx:
        made = telemetry.sum_calls_by_command(tx, chain.cluster_id, 0)
    assert made["squeue"].unread == 5
    chain.tick(after_s=70)
    assert chain.moves() == 1, "once it reads it is moved"
