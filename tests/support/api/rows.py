"""Puts rows into the database as the worker stores them."""

from collections.abc import Mapping
from typing import Any

from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import NewDecision
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import ChainId, LinkState, Position
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.provision.polling.live_ingest import ingest_queue
from tests.support.api.running import CHAIN, NOW, USERS
from tests.support.chains import make_chain, make_link
from tests.support.slurm.printed_jobs import read_queue_job, read_record

HOUR = 3600


_DEFAULT_VALUES = {
    "submit": NOW - 10 * HOUR,
    "eligible": NOW - 10 * HOUR,
    "state": JobState.RUNNING,
    "start": NOW - 9 * HOUR,
    "uid": USERS["alice"],
    "nodes": 2,
    "time_limit_s": 12 * HOUR,
}


def read_running_job(job_id: int, **more: Any) -> Job:
    """Return a running job of alice, as read from squeue; `more`: fields of `JobValues`."""
    return read_queue_job(job_id=job_id, **{**_DEFAULT_VALUES, **more})


def read_running_record(job_id: int, **more: Any) -> Job:
    """Return a running job of alice, as read from sacct; `more`: fields of `JobValues`."""
    return read_record(job_id=job_id, **{**_DEFAULT_VALUES, **more})


def look(store: Store, cluster_id: int, *jobs: Job, at: int = NOW) -> None:
    """Store a snapshot of these jobs on two nodes, one of them idle."""
    nodes = tuple(
        Node(
            name=f"n{i}",
            partitions=("gpu",),
            state="idle",
            cpus=8,
            cpus_used=8 * i,
            gpus=4,
            gpus_used=4 * i,
        )
        for i in range(2)
    )
    with store.begin() as tx:
        ingest_queue(tx, cluster_id, Queue.from_jobs(at, jobs), nodes)


def add_chain(
    tx: Transaction, cluster_id: int, chain_id: str = CHAIN, user: str = "alice", **more: Any
) -> None:
    values: dict[str, Any] = {"uid": USERS[user], "created_at": NOW - 10 * HOUR} | more
    chains.save_chain(tx, cluster_id, make_chain(chain_id, user=user, **values))


def add_links(tx: Transaction, cluster_id: int, chain_id: str = CHAIN) -> None:
    """Add three links: the second started half an hour late; the third an hour early, and runs."""
    spans = [(-9, -6), (-5.5, -1), (-2, None)]
    for index, (start, end) in enumerate(spans, start=1):
        link = make_link(
            chain_id,
            index,
            100 + index,
            submit=NOW - 10 * HOUR,
            state=LinkState.RUNNING if end is None else LinkState.ENDED,
            position=Position.FREE,
            partition="gpu",
            start=round(NOW + start * HOUR),
            end=None if end is None else NOW + end * HOUR,
            end_state=None if end is None else JobState.TIMEOUT,
        )
        chains.save_link(tx, cluster_id, link)


def add_decision(
    tx: Transaction,
    cluster_id: int,
    chain_id: str = CHAIN,
    *,
    at: int = NOW,
    inputs: Mapping[str, Any] | None = None,
) -> int:
    decision = Decision(
        action=Action.FREE,
        reason=f"at {at}: 5 min remain, no more than the lead of 6 min",
        policy="quantile",
        forecast=Forecast(p10_s=60, p50_s=300, p90_s=900, samples=40),
    )
    new = NewDecision(
        at=at,
        chain_id=ChainId(chain_id),
        index=3,
        mode=Mode.ACT,
        decision=decision,
        time_left_s=300,
        inputs=inputs or {"predecessor": 102, "standby": 103},
    )
    return decisions.record_decisions(tx, cluster_id, [new])[0]
