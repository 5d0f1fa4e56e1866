"""The service that benchmarks/serving.py asks: API, pages and worker in one process, as `mirage
serve` has them, on a database of a size and a cluster that shows the database's own jobs."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from sqlalchemy import select

from mirage.database.jobs import job_history
from mirage.database.jobs.job_history import JobFilter
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import chains, links
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.logs import setup_logging
from mirage.policies import registry
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.service_run import configure_interpreter
from mirage.service.worker import Intervals, Worker
from mirage.web.api.app import create_app
from mirage.web.identity.quotas import Quotas
from mirage.web.pages.app import mount_pages
from mirage.web.shared.auth import unix_peer
from mirage.web.shared.context import ApiContext
from tests.support.web import seeded_admin

NODES = 90
TICK_EVERY_S = 20.0
"""Three times as often as in service, so that a short run sees enough of them."""
_QUEUE_JOBS = 2000
"""Jobs in the queue beside the links."""


class StillCluster:
    """A cluster on which nothing happens: the jobs of the database, at the clock's time."""

    def __init__(self, store: Store, cluster_id: int, begin: int) -> None:
        self._begin, self._since = begin, time.monotonic()
        with store.read() as tx:
            waiting = job_history.list_jobs(
                tx, cluster_id, JobFilter(state=JobState.PENDING), limit=_QUEUE_JOBS
            )
            running = job_history.list_jobs(
                tx, cluster_id, JobFilter(state=JobState.RUNNING), limit=NODES
            )
            query = select(links, chains.c.user, chains.c.uid).join(chains)
            rows = tx.execute(query.where(links.c.state != "ended")).all()
        self._jobs = [*waiting, *running, *(_build_link_job(row) for row in rows)]
        self._nodes = tuple(
            Node(
                name=f"n{i:03}",
                partitions=("gpu", "long", "cpu"),
                state="allocated",
                cpus=32,
                cpus_used=32,
                gpus=4,
                gpus_used=4,
            )
            for i in range(NODES)
        )

    def read_clock(self) -> int:
        return self._begin + round(time.monotonic() - self._since)

    def fetch_queue(self) -> Queue:
        return Queue.from_jobs(self.read_clock(), self._jobs)

    def fetch_nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:  # noqa: ARG002
        return iter(())

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        ids = set(job_ids)
        return [job for job in self._jobs if job.job_id in ids]

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        ids = frozenset(job_ids)
        jobs = (job for job in self.fetch_queue() if job.job_id in ids)
        return Queue.from_jobs(self.read_clock(), jobs)

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:  # noqa: ARG002
        return {}

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None: ...
    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None: ...
    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None: ...

    def hold_job(self, standby: JobId, *, owner: int) -> None:  # noqa: ARG002
        self._jobs = [
            replace(job, priority=0) if job.job_id == standby else job for job in self._jobs
        ]

    def release_job(self, standby: JobId, *, owner: int) -> None: ...
    def cancel_job(self, job_id: JobId, *, owner: int) -> None: ...


def _build_link_job(row: Any) -> Job:
    is_running = row.state == "running"
    return Job(
        job_id=JobId(row.job_id),
        submit=row.submit,
        eligible=row.eligible,
        state=JobState.RUNNING if is_running else JobState.PENDING,
        start=row.start,
        partition=row.partition,
        account=row.account,
        nodes=row.nodes,
        time_limit_s=row.time_limit_s,
        reason=row.reason,
        dependency="" if is_running else f"afterany:{row.job_id - 1}(unfulfilled)",
        comment=f"mirage:{row.chain_id}:{row.index}",
        user=row.user,
        uid=row.uid,
    )


def main(url: str, begin: int, ticks: Path) -> None:
    """Serve until SIGTERM; a line of JSON in `ticks` for each tick, the address on stdout."""
    with closing(Store(url)) as store:
        with store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, "lab")
            clusters.release_lease(tx, cluster_id, seeded_admin.HOLDER)
        cluster = StillCluster(store, cluster_id, begin)
        context = ApiContext(
            store=store,
            cluster_id=cluster_id,
            cluster_name="lab",
            admins=("root",),
            clock=cluster.read_clock,
            policies=("reactive", "average", "quantile", "auto"),
            quotas=Quotas(forecasts_per_minute=1_000_000),  # one caller asks for many
        )
        app = create_app(context)
        mount_pages(app)
        stop = threading.Event()
        settings = DecisionSettings(get_policy=registry.get_policy, default_policy="average")
        worker = Worker(store, cluster, cluster_id, settings=settings, intervals=Intervals())
        thread = threading.Thread(target=_run_worker, args=(worker, stop, ticks))
        server = uvicorn.Server(
            uvicorn.Config(
                app, port=0, http=unix_peer.PeerProtocol, log_config=None, access_log=False
            )
        )
        listening = server.config.bind_socket()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        configure_interpreter()
        setup_logging("json")  # to stderr: nobody reads stdout after the address
        thread.start()
        try:
            server.run([listening])
        finally:
            stop.set()
            thread.join()


def _run_worker(worker: Worker, stop: threading.Event, ticks: Path) -> None:
    with ticks.open("a") as lines:
        while not stop.is_set():
            began, cpu_before_s = time.monotonic(), time.thread_time()
            worker.run_tick()
            line = {"at": time.time(), "s": time.monotonic() - began}
            lines.write(json.dumps(line | {"cpu_s": time.thread_time() - cpu_before_s}) + "\n")
            lines.flush()
            stop.wait(max(0.0, TICK_EVERY_S - (time.monotonic() - began)))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
