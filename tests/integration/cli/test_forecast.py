"""`mirage forecast` against the real service and a real munged."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from mirage.database.forecasts import shape_forecasts
from mirage.database.schema.engine import Store
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import JobShape
from mirage.slurm.clients.auth import munge as real_munge
from mirage.web.api.app import ApiContext
from mirage.web.identity.quotas import Quotas
from mirage.web.shared.quota import USERS_PER_ADDRESS
from tests.support.api.fixtures import context, stage, store
from tests.support.api.rows import HOUR, look, read_running_job
from tests.support.api.running import NOW, Client, Stage
from tests.support.cli.in_process import run_in_process
from tests.support.mirage_process import Answer

__all__ = ["context", "stage", "store"]

SHAPE = JobShape(partition="gpu", nodes=2, time_limit_s=48 * HOUR)
WORDS = ("--partition", "gpu", "--nodes", "2", "--time", "48:00:00")
TOLD = Forecast(p10_s=60.0, p50_s=5400.0, p90_s=100000.0, samples=100)


def run(*words: str, url: str | None = None) -> Answer:
    return run_in_process("forecast", *words, url=url)


@pytest.fixture
def client(
    stage: Stage, context: ApiContext, munge: Path, store: Store, cluster_id: int
) -> Iterator[Client]:
    look(store, cluster_id, *(read_running_job(200 + i) for i in range(30)))
    with stage.serving(
        replace(context, identify=real_munge.authenticate_caller, max_time_s={"gpu": 48 * HOUR})
    ) as running:
        yield running


def foretold(store: Store, cluster_id: int, at: int) -> None:
    with store.begin() as tx:
        shape_forecasts.save_forecast(tx, cluster_id, SHAPE, at, TOLD)


def test_a_table_and_who_says_so(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        shape_forecasts.request_forecast(tx, cluster_id, SHAPE, NOW - 120)
    foretold(store, cluster_id, NOW - 60)
    shown = run(*WORDS, url=client.url)
    assert (shown.code, shown.err) == (0, "")
    assert "If submitted now to gpu, 2 nodes, 2-00:00:00:" in shown.out
    for word in ("1 min", "1 h 30 min", "1 d 3 h", "the twin", "1 min ago"):
        assert word in shown.out


def test_json_is_the_services(client: Client) -> None:
    shown = run(*WORDS, "--json", url=client.url)
    assert (shown.code, shown.err) == (0, "")
    answer = json.loads(shown.out)
    assert (answer["source"], answer["nodes"], answer["time_limit_s"]) == (
        "quantile",
        2,
        48 * HOUR,
    )
    assert answer["p50_s"] == HOUR


def test_who_shares_an_address_with_many_is_asked_for_a_name(
    stage: Stage, context: ApiContext, munge: Path, store: Store, cluster_id: int
) -> None:
    """All of a login node have had what nobody had to be named for."""
    look(store, cluster_id, *(read_running_job(200 + i) for i in range(30)))
    still = time.monotonic()
    asked = replace(
        context,
        identify=real_munge.authenticate_caller,
        quotas=Quotas(forecasts_per_minute=1),
        stopwatch=lambda: still,
    )
    with stage.serving(asked) as client:
        shown = [run(*WORDS, "--json", url=client.url) for _ in range(USERS_PER_ADDRESS + 2)]
    served = [(answer.code, answer.err) for answer in shown[:-1]]
    assert served == [(0, "")] * (USERS_PER_ADDRESS + 1)
    assert shown[-1].code == 1
    assert "quota.forecasts_per_minute" in shown[-1].err


def test_wait_has_the_twin_asked(client: Client, store: Store, cluster_id: int) -> None:
    """A worker that answers as soon as it sees the question."""

    def answer() -> None:
        until = monotonic() + 20
        while monotonic() < until:
            with store.read() as tx:
                if shape_forecasts.find_forecast(tx, cluster_id, SHAPE) is not None:
                    break
            sleep(0.05)
        foretold(store, cluster_id, NOW)

    worker = Thread(target=answer)
    worker.start()
    shown = run(*WORDS, "--wait", "--json", url=client.url)
    worker.join()
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert (found["source"], found["exact"], found["p50_s"]) == ("twin", True, 5400.0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--partition", "gpu", "--nodes", "4", "--time", "soon"), 2, "like 48:00:00"),
        (("--partition", "gpu", "--nodes", "4", "--time", "0"), 2, "no time limit"),
        (("--partition", "gpu", "--nodes", "0", "--time", "1:00:00"), 2, "--nodes"),
        (("--partition", "gpu", "--time", "1:00:00"), 2, "--nodes"),
        (("--partition", "gpu", "--nodes", "3", "--time", "1:00:00"), 2, "gpu has 2 nodes"),
        (("--partition", "gpu", "--nodes", "1", "--time", "2-0:1"), 2, "MaxTime=2-00:00:00"),
        (("--partition", "gpu", "--nodes", "1", "--time", "3-0", "--wait"), 2, "MaxTime"),
        (("--partition", "rare", "--nodes", "1", "--time", "1:00:00"), 2, "partition rare"),
        (("--partition", "x\x1b[2J", "--nodes", "1", "--time", "1:0:0", "--wait"), 2, "partition"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    client: Client, words: tuple[str, ...], code: int, said: str
) -> None:
    shown = run(*words, url=client.url)
    assert (shown.code, shown.out) == (code, "")
    assert said in shown.err
    assert "\x1b[2J" not in shown.err


def test_without_a_service_it_says_what_to_do_instead() -> None:
    shown = run(*WORDS, url="http://127.0.0.1:9")
    assert shown.code == 5
    assert "sbatch --test-only" in shown.err
