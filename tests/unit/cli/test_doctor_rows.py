"""What `mirage doctor` says of rows that do not read, and of nodes that ask the service."""

from contextlib import closing
from pathlib import Path
from shutil import copy
from time import time

import pytest

from mirage.config.settings import Settings
from mirage.store.database.engine import Store
from mirage.store.operations import clusters, telemetry
from mirage.store.operations.telemetry import CallCounts
from mirage.studies.diagnostics.finding import Severity
from mirage.studies.diagnostics.service_checks import check_nodes, check_unread_rows
from tests.support.api.rows import add_chain


@pytest.fixture
def settings(sqlite_template: Path, tmp_path: Path) -> Settings:
    copy(sqlite_template, tmp_path / "mirage.db")
    return Settings.model_validate({"database": {"url": f"sqlite:///{tmp_path}/mirage.db"}})


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


def test_nodes_that_reach_the_service_are_told_and_else_what_to_check(settings: Settings) -> None:
    unasked = "no link has asked the service from a node yet: "
    assert check_nodes(settings) == (Severity.GOOD, unasked + "there was no chain yet")
    with closing(Store(settings.database_url)) as store:
        with store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
            add_chain(tx, cluster_id)
        verdict, told = check_nodes(settings)
        assert verdict is Severity.WARNING
        assert told.startswith(unasked + "run `curl URL/healthz` on a node")
        with store.begin() as tx:
            clusters.set_node_asked_at(tx, cluster_id, 1_800_000_000)
    told = "links on nodes asked the service last at 2027-01-15 08:00 UTC"
    assert check_nodes(settings) == (Severity.GOOD, told)
