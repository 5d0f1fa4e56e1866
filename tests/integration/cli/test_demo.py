"""`mirage demo`: what the README promises of it, on the heavy preset as it ships."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mirage.config.paths import DEFAULT_PORT
from mirage.config.settings import Settings
from mirage.database.chains.chains import HandoverRow
from mirage.database.operations import telemetry
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, LinkState
from mirage.domain.job_shape import JobShape
from mirage.lab.demo import policy_comparison
from mirage.provision.forecasts import submission_forecast
from mirage.simulator.types import Params
from tests.support import demo_figures, patient
from tests.support.chains import make_chain, make_link
from tests.support.mirage_process import MIRAGE, Answer, environment, run

_HOUR_S = 3600


@pytest.mark.slow
def test_the_demo_saves_what_the_readme_says() -> None:
    words = ["demo", "--once", "--json", "--port", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "mirage", *words], capture_output=True, text=True, check=True
    )
    policies = json.loads(done.stdout)["policies"]
    reactive, at_once = policies["reactive"], policies["at-once"]
    assert all(outcome["handovers"] >= 30 for outcome in policies.values())
    ours = policies[Settings().provision.policy]
    assert ours["cost_h"] <= 0.7 * reactive["cost_h"]
    assert ours["overlap_h"] <= 2
    assert at_once["cost_h"] > reactive["cost_h"]
    assert reactive["overlap_h"] == 0
    assert "API: http://127.0.0.1:" in done.stderr
    anew = "make the figures anew: python -m tests.support.demo_figures"
    assert demo_figures.read_block(demo_figures.README, "table") == demo_figures.render_table(
        policies
    ), anew
    shown = {name: cells[0] for name, cells in demo_figures.read_columns().items()}
    assert shown.items() >= demo_figures.render_column(policies).items(), anew


def test_the_demo_does_not_listen_where_sbatch_registers_chains() -> None:
    told = run("demo", "--help", COLUMNS="200").out
    assert f"default: {DEFAULT_PORT + 1}]" in told


def small(folder: Path, *words: str) -> list[str]:
    """The words of a demo of seconds: two lightly loaded nodes, chains of two links."""
    (folder / "lab.toml").write_text('[cluster]\nname = "lab"\nnodes = 2\n')
    fixed = "demo --json --port 0 --cluster lab.toml --preset light --links 2 --from 2026-01-06"
    return [*fixed.split(), *words]


def two_chains(folder: Path, until: str) -> Answer:
    words = small(folder, "--once", "--chains", "2", "--until", until)
    return run(*words, cwd=folder, TMPDIR=str(folder))


@pytest.mark.slow
def test_a_demo_that_stops_early_says_how_far_it_came(tmp_path: Path) -> None:
    # The second chains begin 17 h after the first: their links end after the stop.
    done = two_chains(tmp_path, "2026-01-08 12:00:00")
    assert done.code == 0, done.err
    assert json.loads(done.out)["policies"]["reactive"]["handovers"] == 1
    assert "stopped at 2026-01-08 12:00: 7 of 14 hand-overs are complete" in done.err
    assert not list(tmp_path.glob("mirage-demo-*"))


@pytest.mark.slow
def test_a_demo_without_a_complete_handover_has_no_result(tmp_path: Path) -> None:
    # A second more than one link: the next one waits, and has not begun by then.
    done = two_chains(tmp_path, "2026-01-08 00:00:01")
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert last.startswith(
        "mirage: no hand-over of reactive was complete when the demo stopped at 2026-01-08"
    )
    assert not list(tmp_path.glob("mirage-demo-*"))


@contextmanager
def running_demo(folder: Path, *words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A small demo whose files are in `folder`; whatever happens, it is gone afterwards."""
    process = subprocess.Popen(
        [*MIRAGE, *small(folder, *words)],
        cwd=folder,
        env=environment(TMPDIR=str(folder), **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], beginning: str) -> str:
    """The line that begins so."""
    assert process.stderr is not None
    found = next((line for line in process.stderr if line.startswith(beginning)), None)
    assert found is not None, "it ended without that line"
    return found


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGTERM, 143, "SIGTERM"), (signal.SIGINT, 130, "SIGINT")],
    ids=["TERM", "INT"],
)
@pytest.mark.parametrize("line", ["API: ", "the first chains"], ids=["filling", "chains"])
def test_a_signal_ends_the_demo_and_leaves_nothing(
    tmp_path: Path, line: str, number: int, code: int, name: str
) -> None:
    with running_demo(tmp_path, "--chains", "15") as demo:
        wait_for(demo, line)
        assert len(list(tmp_path.glob("mirage-demo-*/mirage.db"))) == 1
        demo.send_signal(number)
        out, err = demo.communicate()
    assert (demo.returncode, out) == (code, "")
    assert err.splitlines()[-1] == f"mirage: ended by {name}"
    assert "Traceback" not in err
    assert not list(tmp_path.glob("mirage-demo-*"))


def test_a_demo_keeps_away_from_the_database_of_the_site(tmp_path: Path) -> None:
    site = tmp_path / "site.db"
    with running_demo(tmp_path, MIRAGE_DATABASE_URL=f"sqlite:///{site}") as demo:
        wait_for(demo, "API: ")
        assert len(list(tmp_path.glob("mirage-demo-*/mirage.db"))) == 1
        assert not site.exists()


def foretold_by_the_twin(url: str, folder: Path) -> bool:
    """Whether a job that somebody asks about is, as `mirage forecast --wait` asks."""
    asked: dict[str, Any] = {
        "partition": Params().partitions[0].name,
        "nodes": 2,
        "time_limit_s": 7 * _HOUR_S,
    }
    (database,) = folder.glob("mirage-demo-*/mirage.db")
    with closing(Store(f"sqlite:///{database}")) as store, store.begin() as tx:
        last = telemetry.find_last_tick(tx, 1)
        assert last is not None
        submission_forecast.request_forecast(tx, 1, JobShape(**asked), last.at)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = patient.get(f"{url}/api/v1/forecasts", params=asked).json()
        if not found["waiting"]:
            return bool(found["source"] == "twin" and found["exact"])
        time.sleep(0.2)
    return False


@pytest.mark.slow
def test_after_the_result_the_api_stays_until_a_signal(tmp_path: Path) -> None:
    with running_demo(tmp_path, "--chains", "1", "--until", "2026-01-08 12:00:00") as demo:
        stays = wait_for(demo, "Pages and API stay at http://127.0.0.1:")
        assert foretold_by_the_twin(stays.split()[5], tmp_path)
        demo.send_signal(signal.SIGTERM)
        out, err = demo.communicate()
    assert (demo.returncode, err) == (143, "mirage: ended by SIGTERM\n")
    assert "reactive" in json.loads(out)["policies"]
    assert not list(tmp_path.glob("mirage-demo-*"))


def _make_handover_row(policy: str, number: str, interruption_h: float) -> HandoverRow:
    chain_id = ChainId(f"chain{policy}{number}")
    chain = make_chain(chain_id, policy=policy)
    before = make_link(chain_id, state=LinkState.ENDED, end=100_000)
    start = 100_000 + round(interruption_h * _HOUR_S)
    after = make_link(chain_id, 2, 2, start=start)
    return HandoverRow(chain, before, after)


def test_outcomes_compare_the_same_handovers_only() -> None:
    rows = [
        _make_handover_row("reactive", "000", 10.0),
        _make_handover_row("reactive", "001", 2.0),
        _make_handover_row("average", "000", -4.0),
        _make_handover_row("average", "002", 50.0),
    ]
    outcome = policy_comparison.compute_outcomes(rows, overlap_price=0.5)["average"]
    assert outcome.handovers == 1
    assert outcome.overlap_h == pytest.approx(4.0)
    assert outcome.cost_h == pytest.approx(2.0)
    assert outcome.zero_interruption_pct == 100.0
    assert outcome.less_than_reactive_pct == pytest.approx(80.0)


def test_without_a_baseline_there_is_nothing_to_compare() -> None:
    assert (
        policy_comparison.compute_outcomes(
            [_make_handover_row("average", "000", 1.0)], overlap_price=0.5
        )
        == {}
    )
