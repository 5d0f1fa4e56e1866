"""`mirage chain show` draws the hand-overs that the service serves, and pairs no links itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.chain import Presubmit
from mirage.domain.job import JobState
from mirage.shipped_files import load_client_module
from mirage.web.api.app import ApiContext
from tests.support.api.running import Client, Stage
from tests.support.provision.slurm_jobs import CHAIN, NOW, ended, register, running, standby, sync

timeline_rows = load_client_module("command.timeline_rows")
timeline_text = load_client_module("command.timeline_text")

BEGAN, ENDED_AT = NOW - 60, NOW + 4940


@pytest.fixture
def client(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    """Of alice's three links that stood, she cancelled the second one while it waited."""
    register(store, links=3, presubmit=Presubmit.ALL)
    sync(store, running(1, BEGAN), standby(2), standby(3))
    gone = ended(2, JobState.CANCELLED, None, NOW + 40)
    sync(store, running(1, BEGAN), gone, standby(3), now=NOW + 60)
    with stage.serving(context) as serving:
        yield serving


def draw(client: Client) -> Any:
    return timeline_rows.build_timeline(
        client.get(f"/api/v1/chains/{CHAIN}/timeline").json(), newest=9
    )


def test_the_drawing_has_the_interruption_that_the_service_measured(
    client: Client, store: Store
) -> None:
    over = ended(1, JobState.TIMEOUT, BEGAN, ENDED_AT)
    sync(store, over, running(3, ENDED_AT + 10), now=ENDED_AT + 60)
    served = client.get(f"/api/v1/chains/{CHAIN}").json()
    second, third = draw(client).rows[1:]
    assert not any([second.interruption, second.overlap])
    assert third.interruption == pytest.approx((ENDED_AT, ENDED_AT + 10))
    assert [round(one["interruption_h"] * 3600) for one in served["handovers"]] == [10]
    assert any("runs, 10 s interrupted" in line for line in drawn_lines(draw(client)))


def drawn_lines(drawn: Any) -> list[str]:
    return [line.plain for line in timeline_text.draw_lines(drawn, 140, ascii_only=True)]
