"""The shipped board and alerts: every name that they ask for, /metrics really has."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.decision import Forecast
from mirage.web.api.app import ApiContext
from tests import needed
from tests.support.api.rows import add_chain, add_decision, look
from tests.support.api.running import CHAIN, NOW, Stage
from tests.support.paths import DEPLOY

BOARD = DEPLOY / "grafana" / "mirage.json"
ALERTS = DEPLOY / "prometheus" / "mirage-alerts.yml"
_NAME = re.compile(r"\bmirage_[a-z_]+")


@dataclass(frozen=True)
class Cost:
    calls: int = 7
    failures: int = 1
    seconds: float = 2.5


@pytest.fixture
def served(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> set[str]:
    """The names of /metrics of a service that has everything there is a number of."""
    look(store, cluster_id, at=NOW - 30)
    with store.begin() as tx:
        clusters.take_lease(tx, cluster_id, "here:1", now=NOW, ttl_s=180)
        add_chain(tx, cluster_id)
        add_decision(tx, cluster_id)
        row = ForecastRow(
            chain_id=ChainId(CHAIN), index=2, source="quantile", at=NOW, forecast=Forecast(p50_s=9)
        )
        handover_forecasts.record_forecasts(tx, cluster_id, [row])
        handover_forecasts.settle_forecast(tx, cluster_id, ChainId(CHAIN), 2, 100)
    with stage.serving(replace(context, usage=lambda: {"squeue": Cost()})) as client:
        text = client.get("/metrics").text
    # A family without a row yet, such as chains at risk, is told of by its TYPE line.
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


def queries() -> list[str]:
    board: dict[str, Any] = json.loads(BOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_board_asks_for_what_there_is(served: set[str]) -> None:
    asked = {name for query in queries() for name in _NAME.findall(query)}
    assert len(asked) > 8
    assert asked <= served


def test_the_alerts_ask_for_what_there_is(served: set[str]) -> None:
    rules = ALERTS.read_text()
    asked = {
        name
        for part in re.findall(r"expr:(.*?)\n +for:", rules, re.S)
        for name in _NAME.findall(part)
    }
    assert len(asked) > 8
    assert asked <= served


def test_the_board_is_whole() -> None:
    board = json.loads(BOARD.read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    taken = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(taken) == len(set(taken)), "panels lie over each other"
    assert max(x for x, _ in taken) < 24
    assert all(panel["description"] for panel in panels)


def promtool(*words: str, cwd: Path) -> None:
    if shutil.which("promtool") is None:
        needed.absent("promtool is not installed")
    done = subprocess.run(
        ["promtool", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_boards_queries_read(tmp_path: Path) -> None:
    """By Prometheus's own parser, as rules."""
    rules = [
        {"record": f"board:{n}", "expr": query.replace("$job", "mirage")}
        for n, query in enumerate(queries())
    ]
    (tmp_path / "board.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    promtool("check", "rules", "board.yml", cwd=tmp_path)


def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("check", "rules", ALERTS.name, cwd=ALERTS.parent)
    promtool("test", "rules", "mirage-alerts.test.yml", cwd=ALERTS.parent)


def test_the_scrape_file_reads(tmp_path: Path) -> None:
    token = tmp_path / "mirage.token"
    token.write_text("mirage_x\n")
    text = (DEPLOY / "prometheus" / "scrape.yml").read_text()
    shutil.copy(ALERTS, tmp_path)
    (tmp_path / "scrape.yml").write_text(text.replace("/etc/prometheus/mirage.token", str(token)))
    promtool("check", "config", "scrape.yml", cwd=tmp_path)
