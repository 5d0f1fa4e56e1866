"""Databases of a size: what a worker would have stored of a busy cluster, put in quickly.

The same numbers each time. The newest snapshot is 34 s old at NOW, which is the clock of the pages.
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
    """Of snapshots, ten minutes apart."""


EMPTY, ONE, FULL = Size(0, 0, 0), Size(1, 200), Size(2000, 200_000)
SIZES = {"empty": EMPTY, "one": ONE, "full": FULL}

CHAIN: ChainId = chain_id(0)
"""One that is there at every size but EMPTY, with links, decisions and a forecast."""


def seed(store: Store, size: Size) -> int:
    """Fill an empty database; returns the cluster's id."""
    luck = random.Random(20260302)  # noqa: S311 - the same each time
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        put(tx, jobs, _jobs(cluster_id, size.jobs, luck))
        put(tx, snapshots, _snapshots(cluster_id, size.days, luck))
        made = [SeededChain(cluster_id, n, luck) for n in range(size.chains)]
        put(tx, chains, (chain.row for chain in made))
        put(tx, links, (row for chain in made for row in chain.links))
        put(tx, decisions, (row for chain in made for row in chain.decisions))
        put(tx, forecasts, (row for chain in made for row in chain.forecasts))
        seeded_past.seed(
            tx,
            cluster_id,
            [row for chain in made for row in chain.links],
            {str(c.row["chain_id"]): (c.row["user"], c.row["uid"]) for c in made},
        )
        if size.chains:
            seed_admin(tx, cluster_id, LOOKED_AT)
        tx.exec_driver_sql("ANALYZE")
    seed_queue(store, cluster_id, LOOKED_AT, PARTITIONS, jobs=size.jobs)
    return cluster_id


def put(tx: Transaction, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    """Many rows in one statement, NULL where one names no value: SQLite alone."""
    named = [column.name for column in table.columns if column.name != "id"]
    values = [tuple(row.get(name) for name in named) for row in rows]
    if values:
        columns = ", ".join(f'"{name}"' for name in named)
        marks = ", ".join("?" * len(named))
        words = f"INSERT INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - our tables
        tx.exec_driver_sql(words, values)


def _jobs(cluster_id: int, count: int, luck: random.Random) -> Iterator[dict[str, Any]]:
    """Over 90 days; the last ones still wait or run."""
    for n in range(count):
        submit = NOW - 90 * DAY + 90 * DAY * n // count
        limit = luck.choice((4, 12, 24, 48)) * HOUR
        start: int | None = submit + round(math.exp(luck.gauss(7.2, 1.8)))
        end: int | None = (start or 0) + round(limit * luck.random())
        state = "COMPLETED"
        if (start or 0) > NOW:
            start, end, state = None, None, "PENDING"
        elif (end or 0) > NOW:
            end, state = None, "RUNNING"
        user, uid = luck.choice(USERS)
        nodes = luck.choice((1, 1, 1, 2, 4, 8, 16))
        yield {
            "cluster_id": cluster_id,
            "job_id": 10_000 + n,
            "submit": submit,
            "state": state,
            "user": user,
            "uid": uid,
            "account": f"group{uid % 7}",
            "partition": luck.choice(PARTITIONS),
            "qos": "normal",
            "name": f"train-{n % 50}",
            "reason": luck.choice(("Priority", "Resources")) if state == "PENDING" else "",
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


def _snapshots(cluster_id: int, days: int, luck: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(days * 144):
        pending = round(200 + 120 * math.sin(n / 144 * 2 * math.pi) + luck.gauss(0, 15))
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
