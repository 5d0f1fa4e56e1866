"""The loop: what it keeps, what it catches up with, and who acts."""

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mirage.database.events import audit
from mirage.database.jobs import job_history, queue_sums
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainState, LinkState
from mirage.domain.decision import Mode
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node
from mirage.errors import AccountingOff, ClusterRefused, ClusterUnavailable, NotFound
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.polling.live_ingest import FIRST_WINDOW_S, OVERLAP_S, WINDOW_S
from mirage.service.worker import FORGED, Worker
from mirage.slurm.clients.call_stats import CallTotals
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from tests.support.provision.scene import Always, Scene
from tests.support.provision.slurm_jobs import (
    HOUR,
    NOW,
    WrittenCluster,
    chain,
    contents,
    ended,
    ended_record,
    job,
    links,
    read_mode,
    running,
    standby,
)

DAY = 86400


def worker(store: Store, cluster: WrittenCluster, **options: Any) -> Worker:
    return Worker(
        store,
        cluster,
        1,
        settings=DecisionSettings(get_policy=Always, default_policy="always"),
        **options,
    )


def tick(cluster: WrittenCluster, *workers: Worker, after_s: int = 60) -> None:
    cluster.at += after_s
    for each in workers:
        each.run_tick()


def known(store: Store) -> dict[JobId, Job]:
    with store.read() as tx:
        return {found.job_id: found for found in job_history.list_jobs(tx, 1, limit=1000)}


def history_until(store: Store) -> int | None:
    with store.read() as tx:
        return clusters.read_history_until(tx, 1)


def test_a_second_tick_at_the_same_instant_changes_nothing(acting_store: Store) -> None:
    scene = Scene(acting_store)
    for _ in range(3):
        scene.tick()
    before = contents(acting_store)
    scene.tick(after_s=0)
    assert contents(acting_store) == before
    # After a restart a waiting job's priority is stored anew and told of, and nothing else.
    scene.worker = scene.new_worker()
    scene.tick(after_s=0)
    after = contents(acting_store)
    assert len(after.pop("jobs")) == len(before.pop("jobs"))
    for told in ("changes", "change_counts"):
        assert before.pop(told) != after.pop(told)
    assert after == before


def finished(number: int, end: int) -> Job:
    fields: dict[str, Any] = {"job_id": JobId(number), "comment": "", "submit": end - HOUR}
    return ended_record(1, JobState.COMPLETED, end - HOUR + 60, end, **fields)


def test_a_tick_that_cannot_be_written_down_is_not_the_last(acting_store: Store) -> None:
    """Out of descriptors, say: whatever it is, the worker goes on."""

    def no_usage() -> Mapping[str, CallTotals]:
        raise OSError(errno.EMFILE, "Too many open files")

    with capture_logs() as lines:
        worker(acting_store, WrittenCluster(), usage=no_usage).run_tick()
    assert [line["event"] for line in lines][-1] == "the tick is not written down"
    assert history_until(acting_store) == NOW


def test_days_of_being_down_are_caught_up_with_from_the_watermark(acting_store: Store) -> None:
    cluster = WrittenCluster()
    worker(acting_store, cluster).run_tick()
    assert history_until(acting_store) == NOW
    assert cluster.windows[0][0] == NOW - FIRST_WINDOW_S - OVERLAP_S
    cluster.windows.clear()
    # One ended before Mirage went down, but slurmdbd heard of it late.
    cluster.records = [finished(i, NOW - 1800 + i * HOUR) for i in range(70)]
    tick(cluster, worker(acting_store, cluster), after_s=3 * DAY)
    assert sorted(known(acting_store)) == list(range(70))
    assert history_until(acting_store) == NOW + 3 * DAY
    spans = [(since + OVERLAP_S, until) for since, until in cluster.windows]
    assert spans == [(NOW + i * WINDOW_S, NOW + (i + 1) * WINDOW_S) for i in range(12)]


def test_a_catch_up_that_breaks_off_goes_on_where_it_was(acting_store: Store) -> None:
    cluster = WrittenCluster()
    first = worker(acting_store, cluster)
    first.run_tick()
    answered = len(cluster.windows)

    class Tiring(WrittenCluster):
        def fetch_history(self, since: int, until: int) -> Iterator[Job]:
            if len(self.windows) == 2:
                raise ClusterUnavailable("no answer")
            return super().fetch_history(since, until)

    tiring = Tiring(now=NOW + DAY)
    tiring.records = [finished(i, NOW + i * HOUR) for i in range(24)]
    worker(acting_store, tiring).run_tick()
    assert history_until(acting_store) == NOW + 2 * WINDOW_S
    cluster.records = tiring.records
    tick(cluster, worker(acting_store, cluster), after_s=DAY)
    assert cluster.windows[answered][0] == NOW + 2 * WINDOW_S - OVERLAP_S
    assert sorted(known(acting_store)) == list(range(24))


def test_accounting_is_asked_every_five_minutes(acting_store: Store) -> None:
    cluster = WrittenCluster()
    once = worker(acting_store, cluster)
    once.run_tick()
    cluster.windows.clear()
    for _ in range(10):
        tick(cluster, once)
    assert [until - NOW for _, until in cluster.windows] == [300, 600]


def test_without_accounting_the_queue_alone_is_history(acting_store: Store) -> None:
    cluster = WrittenCluster(job(1, comment="", eligible=NOW))
    cluster.errors["history"] = AccountingOff("Slurm accounting storage is disabled")
    one = worker(acting_store, cluster)
    one.run_tick()
    cluster.jobs = [running(1, NOW + 45, comment="", eligible=NOW)]
    tick(cluster, one)
    cluster.jobs = [ended(1, JobState.COMPLETED, NOW + 45, NOW + 100, comment="", eligible=NOW)]
    tick(cluster, one)
    cluster.jobs = []
    tick(cluster, one)
    found = known(acting_store)[JobId(11)]
    assert (found.state, found.start, found.end) == (JobState.COMPLETED, NOW + 45, NOW + 100)
    with acting_store.read() as tx:
        assert job_history.read_waits(tx, 1, "gpu", before=cluster.at, last=9).wait_s.tolist() == [
            45
        ]


@pytest.mark.parametrize("call", ["queue", "nodes", "history", "free"])
def test_a_silent_slurm_costs_nothing_but_time(acting_store: Store, call: str) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    one = worker(acting_store, cluster)
    cluster.errors[call] = ClusterUnavailable("no answer")
    for _ in range(4):
        tick(cluster, one)
    assert all(link.state is not LinkState.ENDED for link in links_or_none(acting_store).values())
    del cluster.errors[call]
    for _ in range(2):
        tick(cluster, one)
    assert [li.state for li in links(acting_store).values()] == [
        LinkState.RUNNING,
        LinkState.PENDING,
    ]
    assert links(acting_store)[2].freed_at is not None
    assert chain(acting_store).state is ChainState.ACTIVE
    assert history_until(acting_store) is not None


def links_or_none(store: Store) -> dict[int, Any]:
    try:
        return links(store)
    except NotFound:
        return {}


def test_a_link_gone_from_the_queue_is_not_ended_before_accounting_has_answered(
    acting_store: Store,
) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    one = worker(acting_store, cluster)
    one.run_tick()
    cluster.jobs = [job(2)]
    cluster.errors["jobs"] = cluster.errors["history"] = ClusterUnavailable("no answer")
    for _ in range(10):
        tick(cluster, one)
    assert links(acting_store)[1].state is LinkState.RUNNING
    cluster.errors.clear()
    cluster.records = [ended_record(1, JobState.FAILED, NOW - 60, NOW + 30)]
    tick(cluster, one)
    assert (links(acting_store)[1].end, links(acting_store)[1].end_state) == (
        NOW + 30,
        JobState.FAILED,
    )


@pytest.mark.parametrize("refused", [True, False], ids=["accounting off", "no record"])
def test_a_link_that_nobody_knows_any_more_has_ended(acting_store: Store, *, refused: bool) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    one = worker(acting_store, cluster)
    one.run_tick()
    cluster.jobs = [job(2)]
    if refused:
        cluster.errors["jobs"] = cluster.errors["history"] = AccountingOff("disabled")
    tick(cluster, one, after_s=180)
    assert links(acting_store)[1].state is LinkState.RUNNING
    tick(cluster, one)
    assert links(acting_store)[1].end_state is JobState.UNKNOWN


def test_a_refusal_is_not_read_as_gone(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    one = worker(acting_store, cluster)
    one.run_tick()
    cluster.jobs = [job(2)]
    cluster.errors["jobs"] = cluster.errors["history"] = ClusterRefused("Permission denied")
    for _ in range(10):
        tick(cluster, one)
    assert links(acting_store)[1].state is LinkState.RUNNING


def test_a_link_that_was_closed_unseen_goes_on_when_it_is_seen_again(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1), standby(2))
    one = worker(acting_store, cluster)
    one.run_tick()
    cluster.jobs = []
    for _ in range(10):
        tick(cluster, one)
    assert links(acting_store)[1].end_state is JobState.UNKNOWN
    assert not chain(acting_store).state.is_over
    cluster.jobs = [running(1), standby(2)]
    tick(cluster, one)
    assert links(acting_store)[1].state is LinkState.RUNNING


def test_the_kill_file_stops_acting_within_the_tick(acting_store: Store, tmp_path: Path) -> None:
    kill_file = tmp_path / "stop"
    cluster = WrittenCluster(running(1), standby(2))
    kill_file.touch()
    worker(acting_store, cluster, kill_file=kill_file).run_tick()
    assert (cluster.moves, read_mode(acting_store)) == ([], Mode.SHADOW)


def two(store: Store, cluster: WrittenCluster) -> tuple[Worker, Worker]:
    first, second = worker(store, cluster), worker(store, cluster)
    first._holder, second._holder = "a:1", "b:1"
    return first, second


def count_snapshots(store: Store) -> int:
    with store.read() as tx:
        return len(queue_sums.list_snapshots(tx, 1, since=0))


def test_of_two_workers_one_acts_and_the_other_follows_when_it_dies(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1))
    first, second = two(acting_store, cluster)
    tick(cluster, first, second)
    cluster.jobs.append(standby(2))
    tick(cluster, second)
    assert list(links(acting_store)) == [1]
    assert cluster.moves == []
    tick(cluster, second)
    assert cluster.moves == [], "the lease lasts three ticks"
    tick(cluster, second)
    assert [standby for _, standby, _ in cluster.moves] == [12]
    tick(cluster, first)
    assert len(cluster.moves) == 1


def test_what_somebody_wrote_into_slurms_answers_is_audited_once_a_tick(
    acting_store: Store,
) -> None:
    alarms = ForgeryAlarms()
    found = worker(
        acting_store, WrittenCluster(running(1), standby(2)), forgeries=alarms.take_alarms
    )
    for sentence in ("first", "second", "second"):
        alarms.add_alarm(sentence)
    found.run_tick()
    found.run_tick()
    with acting_store.read() as tx:
        rows = audit.list_entries(tx, 1, event=FORGED)
    assert [row.detail for row in rows] == [{"errors": ["first", "second"], "times": 3}]


def test_moves_are_made_on_a_fresh_queue_though_accounting_takes_long(acting_store: Store) -> None:
    asked: list[str] = []

    class Ordered(WrittenCluster):
        def free_standby(self, standby: JobId, **more: Any) -> None:
            asked.append("free")
            super().free_standby(standby, **more)

        def fetch_history(self, since: int, until: int) -> Iterator[Job]:
            asked.append("history")
            return super().fetch_history(since, until)

    worker(acting_store, Ordered(running(1), standby(2))).run_tick()
    assert asked[:2] == ["free", "history"]


def test_a_worker_whose_lease_ran_out_during_a_tick_does_not_act(acting_store: Store) -> None:
    """The answer on nodes took minutes; meanwhile the other worker has taken over."""

    class Slow(WrittenCluster):
        def fetch_nodes(self) -> tuple[Node, ...]:
            self.at += 100
            second.run_tick()
            return super().fetch_nodes()

    slow, quick = Slow(running(1), standby(2)), WrittenCluster(running(1), standby(2))
    quick.errors["free"] = ClusterUnavailable("no answer")
    first, second = worker(acting_store, slow), worker(acting_store, quick)
    first._holder, second._holder = "a:1", "b:1"
    quick.at = NOW + 10_000
    first.run_tick()
    assert quick.moves
    assert slow.moves == []


def test_stopping_finishes_the_tick_and_gives_the_lease_back(acting_store: Store) -> None:
    stop = threading.Event()

    class Stopping(WrittenCluster):
        def fetch_nodes(self) -> Any:
            stop.set()
            return super().fetch_nodes()

    cluster = Stopping(running(1), standby(2))
    first, second = two(acting_store, cluster)
    first.run(stop, sleep=lambda _: pytest.fail("no sleep once it is told to stop"))
    assert [name for name, _, _ in cluster.moves] == ["free"]
    before = count_snapshots(acting_store)
    tick(cluster, second, after_s=1)
    assert count_snapshots(acting_store) == before + 1


def test_a_run_ticks_at_its_interval(acting_store: Store) -> None:
    stop, cluster = threading.Event(), WrittenCluster()

    def sleep(seconds: float) -> None:
        cluster.at += 1
        if cluster.at >= NOW + 150:
            stop.set()

    worker(acting_store, cluster).run(stop, sleep)
    with acting_store.read() as tx:
        taken = [row.taken_at - NOW for row in queue_sums.list_snapshots(tx, 1, since=0)]
    assert taken == [0, 60, 120]


def test_snapshots_stay(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1))
    one = worker(acting_store, cluster)
    for _ in range(5):
        tick(cluster, one)
    tick(cluster, one, after_s=DAY + HOUR)
    assert count_snapshots(acting_store) == 6


def test_a_fault_of_our_own_is_logged_and_the_next_tick_goes_on(acting_store: Store) -> None:
    cluster = WrittenCluster(running(1))
    one = worker(acting_store, cluster)
    cluster.errors["queue"] = ZeroDivisionError("a bug")
    one.run_tick()
    cluster.errors.clear()
    tick(cluster, one)
    assert list(links(acting_store)) == [1]


def test_a_worker_is_known_by_host_and_process(acting_store: Store) -> None:
    assert worker(acting_store, WrittenCluster())._holder.endswith(f":{os.getpid()}")
