"""`mirage top`, in a pipe and at a real terminal."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mirage.cli.chains.top import chain_text, render_overview
from mirage.database.schema.engine import Store
from mirage.domain.chain_cause import ChainRisk, Risk
from tests.support.api.fixtures import client, context, stage, store
from tests.support.api.rows import add_chain, add_links
from tests.support.api.running import CHAIN, Client
from tests.support.cli.shells import environment, type_at_terminal
from tests.support.mirage_process import Answer, run

__all__ = ["client", "context", "stage", "store"]


@pytest.fixture
def chains(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_chain(
            *(tx, cluster_id, "riskychain1", "bob"),
            at_risk=ChainRisk(of=Risk.REFUSED, link=2, detail="\x1b[2J[red]an admin[/red] says no"),
        )


def top(url: str, home: Path, *words: str) -> Answer:
    environ = environment(home, url) | {"COLUMNS": "160"}
    own = {k: v for k, v in environ.items() if not k.startswith("PYTHON")}
    return run("top", *words, environ=own)


@pytest.mark.usefixtures("chains")
def test_a_pipe_gets_one_picture(client: Client, tmp_path: Path) -> None:
    done = top(client.url, tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("2 live, 1 at risk, 0 paused;")
    rows = [line for line in done.out.splitlines() if CHAIN in line or "riskychain1" in line]
    assert "riskychain1" in rows[-2], "those at risk first"
    assert r"\x1b[2J[red]an admin[/red] says no" in rows[-2]


@pytest.mark.usefixtures("chains")
def test_a_picture_says_how_old_it_is_and_whether_mirage_acts(
    client: Client, tmp_path: Path
) -> None:
    head = " ".join(top(client.url, tmp_path).out.split("next hand-overs")[0].split())
    assert head.endswith("; mode shadow: Mirage decides and logs, and changes nothing in Slurm")


MIXED = {"says": "act in gpu, else shadow", "kill_switch": False}
ACTS, OBSERVES = {"service_mode": "act"}, {"service_mode": "observe"}


@pytest.mark.parametrize(
    ("found", "modes", "says"),
    [
        ({}, MIXED, "mode act in gpu, else shadow"),
        (ACTS, MIXED, "mode act for this chain: Mirage moves the next links"),
        (OBSERVES, MIXED, "mode observe for this chain: Mirage records the queue, and decides"),
        ({}, MIXED | {"kill_switch": True}, "the kill switch is pulled: Mirage changes nothing"),
        (ACTS, MIXED | {"kill_switch": True}, "the kill switch is pulled: Mirage changes nothing"),
        (OBSERVES, MIXED | {"kill_switch": True}, "mode observe for this chain: "),
    ],
)
def test_the_mode_told_is_the_one_that_holds(
    found: dict[str, str], modes: dict[str, object], says: str
) -> None:
    noon = {"as_of": "2027-01-15T12:00:00+00:00", "stale": False}
    assert f"; {says}" in chain_text.describe_service_state(found | noon, modes)


def test_a_narrow_terminal_shows_every_id_link_and_moment() -> None:
    noon = "2027-01-15T12:00:00+00:00"
    reason = {"action": "wait", "reason": "95 min remain, no more than the lead of 90 min " * 3}
    soon = {"chain_id": "k" * 20, "link": 12, "predecessor_end": noon, "start": None}
    found = {"live": 1, "at_risk": 0, "paused": 0, "as_of": noon, "stale": False, "items": []}
    found |= {"soon": [soon | {"decision": reason}], "modes": {"says": "act", "kill_switch": False}}
    out = Console(width=80, record=True, file=StringIO())
    out.print(render_overview(found, rows=5))
    shown = out.export_text().splitlines()
    (row,) = [line for line in shown if "k" * 20 in line]
    assert re.search(r"k\W+12\W+01-15 \d\d:\d\d\W+wait: 95 min", row)
    assert max(map(len, shown)) <= 80


@pytest.mark.usefixtures("chains")
def test_json_is_the_services(client: Client, tmp_path: Path) -> None:
    told = json.loads(top(client.url, tmp_path, "--json", "--user", "bob").out)
    assert [row["chain"]["chain_id"] for row in told["items"]] == ["riskychain1"]


@pytest.mark.usefixtures("chains")
def test_at_a_terminal_it_stays_until_q(client: Client, tmp_path: Path) -> None:
    environ = environment(tmp_path, client.url) | {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    program = f"{sys.executable} -m mirage top --every 1; echo LEFT-$?"
    shown = type_at_terminal(["/bin/sh", "-c", program], "q", "LEFT-", environ, ready="riskychain1")
    assert shown.endswith(("LEFT-", "LEFT-0\r\n", "LEFT-0"))
    assert "Traceback" not in shown


def test_a_service_that_is_away_is_said(tmp_path: Path) -> None:
    done = top("http://127.0.0.1:9", tmp_path)
    assert done.code == 5
    assert "no service at" in done.err
