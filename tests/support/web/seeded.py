"""Fills a database of a given size with what a worker stores of a busy cluster.

The numbers are the same each time. The newest snapshot is 34 s old at NOW, the pages' clock.
"""

import json
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.database.schema.tables import chains, decisions, forecasts, jobs, links, snapshots
from mirage.domain.chain import ChainId
from mirage.domain.decision import Mode
from tests.support.api.running import NOW
from tests.support.web import seeded_past
from tests.support.web.seeded_admin import seed_admin
from tests.support.web.seeded_chain import USERS, SeededChain, chain_id
from tests.support.web.seeded_queue import seed_queue

HOUR, DAY = 3600, 86400
PARTITIONS = ("gpu", "long", "cpu")
LOOKED_AT = NOW - 34


@dataclass(frozen=True, slots=True)
class Size:
    chains: int
    jobs: int
    days: int = 7
    """Days of snapshots, which are ten minutes apart."""


EMPTY, ONE, FULL = Size(0, 0, 0), Size(1, 200), Size(2000, 200_000)
SIZES = {"empty": EMPTY, "one": ONE, "full": FULL}

CHAIN: ChainId = chain_id(0)
"""A chain that every size but EMPTY has, with links, decisions and a forecast."""


def seed(store: Store, size: Size) -> int:
    """Fill an empty database; returns the cluster's id."""
    rng = random.Random(20260302)  # noqa: S311 - the same each time
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        put(tx, jobs, _build_jobs(cluster_id, size.jobs, rng))
        put(tx, snapshots, _build_snapshots(cluster_id, size.days, rng))
        seeded_chains = [SeededChain(cluster_id, n, rng) for n in range(size.chains)]
        put(tx, chains, (chain.row for chain in seeded_chains))
        put(tx, links, (row for chain in seeded_chains for row in chain.links))
        put(tx, decisions, (row for chain in seeded_chains for row in chain.decisions))
        put(tx, forecasts, (row for chain in seeded_chains for row in chain.forecasts))
        seeded_past.seed(
            tx,
            cluster_id,
            [row for chain in seeded_chains for row in chain.links],
            {str(c.row["chain_id"]): (c.row["user"], c.row["uid"]) for c in seeded_chains},
        )
        if size.chains:
            seed_admin(tx, cluster_id, LOOKED_AT)
        tx.exec_driver_sql("ANALYZE")
    seed_queue(store, cluster_id, LOOKED_AT, PARTITIONS, jobs=size.jobs)
    return cluster_id


def put(tx: Transaction, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    """Insert many rows by one statement of SQLite; a value that a row lacks becomes NULL."""
    names = [column.name for column in table.columns if column.name != "id"]
    values = [tuple(row.get(name) for name in names) for row in rows]
    if values:
        columns = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" * len(names))
        words = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - our tables
        tx.exec_driver_sql(words, values)


def _build_jobs(cluster_id: int, count: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield jobs over 90 days, of which the last ones still wait or run."""
    for n in range(count):
        submit = NOW - 90 * DAY + 90 * DAY * n // count
        limit = rng.choice((4, 12, 24, 48)) * HOUR
        start: int | None = submit + round(math.exp(rng.gauss(7.2, 1.8)))
        end: int | None = (start or 0) + round(limit * rng.random())
        state = "COMPLETED"
        if (start or 0) > NOW:
            start, end, state = None, None, "PENDING"
        elif (end or 0) > NOW:
            end, state = None, "RUNNING"
        user, uid = rng.choice(USERS)
        nodes = rng.choice((1, 1, 1, 2, 4, 8, 16))
        yield {
            "cluster_id": cluster_id,
            "job_id": 10_000 + n,
            "submit": submit,
            "state": state,
            "user": user,
            "uid": uid,
            "account": f"group{uid % 7}",
            "partition": rng.choice(PARTITIONS),
            "qos": "normal",
            "name": f"train-{n % 50}",
            "reason": rng.choice(("Priority", "Resources")) if state == "PENDING" else "",
            "priority": 1000 + n % 5000,
            "eligible": submit,
            "start": start,
            "end": end,
            "time_limit_s": limit,
            "nodes": nodes,
            "cpus": 32 * nodes,
            "gpus": 4 * nodes,
            "exit_code": "0:0" if end else "",
            "dependency": "",
            "node_list": "",
            "comment": "",
            "array": 0,
            "submit_line": "sbatch job.sh",
        }


def _build_snapshots(cluster_id: int, days: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(days * 144):
        pending = round(200 + 120 * math.sin(n / 144 * 2 * math.pi) + rng.gauss(0, 15))
        features = {
            "pending_jobs": pending,
            "pending_nodes": 4 * pending,
            "running_jobs": 96,
            "running_nodes": 88,
            "nodes": 90,
            "usable_nodes": 88,
            "idle_nodes": 0,
            "gpus": 352,
            "gpus_used": 350,
        }
        yield {
            "cluster_id": cluster_id,
            "taken_at": LOOKED_AT - 600 * n,
            "features": json.dumps(features),
        }
