"""What `mirage doctor` says of rows that do not read, and of nodes that ask the service."""

from contextlib import closing
from time import time
from typing import Any

from mirage.cli.doctor.finding import Severity
from mirage.cli.doctor.service_checks import check_nodes, check_unread_rows
from mirage.config.settings import Settings
from mirage.database.chains import chains
from mirage.database.operations import clusters, telemetry
from mirage.database.operations.telemetry import CallCounts
from mirage.database.schema.engine import Store
from mirage.domain.chain import LinkState
from tests.support.api.rows import HOUR, add_chain
from tests.support.api.running import CHAIN
from tests.support.chains import make_link


def test_rows_that_are_left_out_are_told_by_command(settings: Settings) -> None:
    assert check_unread_rows(settings) == (
        Severity.GOOD,
        "Mirage could read every row of the last 24 h",
    )
    now = int(time())
    with closing(Store(settings.database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        made = CallCounts(calls=60, failures=0, seconds=1.0, unread=1440)
        telemetry.add_calls(
            tx,
            cluster_id,
            now,
            {"squeue": made, "sinfo": CallCounts(calls=1, failures=0, seconds=1.0)},
        )
        telemetry.add_calls(tx, cluster_id, now - 3 * 86400, {"sacct": made})
    verdict, told = check_unread_rows(settings)
    assert verdict is Severity.WARNING
    assert "could not read, summed over all answers: squeue 1,440. " in told


ASKED = "a client on another host asked for a link's plan last at "
UNASKED = "no client on another host has asked for a link's plan yet"


def test_nodes_that_reach_the_service_are_told_and_else_what_to_check(settings: Settings) -> None:
    quiet = (Severity.GOOD, f"{UNASKED}: no link that asks has run for an hour yet")
    assert check_nodes(settings) == quiet
    now = int(time())
    with closing(Store(settings.database_url)) as store:

        def start_link(ago_s: int, **more: Any) -> None:
            with store.begin() as tx:
                add_chain(tx, cluster_id, **more)
                link = make_link(CHAIN, state=LinkState.RUNNING, start=now - ago_s)
                chains.save_link(tx, cluster_id, link)

        with store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        for ago_s, more in (
            (HOUR - 60, {"links_planned": 3}),  # it may ask yet
            (9 * HOUR, {"links_planned": 1}),
            (9 * HOUR, {"links_planned": 3, "max_overlap_s": 0}),
        ):
            start_link(ago_s, **more)
            assert check_nodes(settings) == quiet
        start_link(2 * HOUR, links_planned=3)
        verdict, told = check_nodes(settings)
        assert verdict is Severity.WARNING
        assert told.startswith(f"{UNASKED}, but a link that asks started at 2")
        assert ": run `curl URL/healthz` on a node" in told
        for asked_ago_s, expected in ((4 * HOUR, Severity.GOOD), (6 * HOUR, Severity.WARNING)):
            with store.begin() as tx:
                clusters.set_node_asked_at(tx, cluster_id, now - asked_ago_s)
            verdict, told = check_nodes(settings)
            assert verdict is expected
            assert told.startswith(ASKED)
