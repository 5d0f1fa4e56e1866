"""Styles between plugin and service of different ages, and programs that take a lease."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.fakes import FakeSlurm

OLD_STYLES = (None, "switch", "wait", "serve")


class OldService(HTTPServer):
    """Knows what a service of 0.1.0 knew of styles."""

    told: list[dict[str, Any]]


class Handler(BaseHTTPRequestHandler):
    server: OldService

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.told.append(said)
        self.send_response(201 if said.get("style") in OLD_STYLES else 422)
        self.end_headers()
        self.wfile.write(b'{"detail": "style: Input should be one of those that I know"}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def old_service() -> Iterator[OldService]:
    with OldService(("127.0.0.1", 0), Handler) as server:
        server.told = []
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), ["sequential", "sequential", None]),  # first without what is newer, the returns
        (("--mirage-style=concurrent",), ["concurrent", None]),
        (("--mirage-style=serve",), ["serve"]),
    ],
)
def test_a_service_that_knows_no_such_style_is_told_of_the_chain_without_it(
    slurm: FakeSlurm, old_service: OldService, words: tuple[str, ...], told: list[str | None]
) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    url = f"http://127.0.0.1:{old_service.server_port}"
    done = slurm.sbatch(
        *("--mirage-chain=2", *words, "job.sh"),
        patient=True,
        env={"MIRAGE_URL": url},
    )
    (chain,) = slurm.chains()
    assert done.stderr.decode() == f"mirage: chain {chain.name}: 2 links\n"
    assert [said.get("style") for said in old_service.told] == told
    assert {said["chain_id"] for said in old_service.told} == {chain.name}


def handover(chain_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PLUGIN / "mirage-link", "handover", *words],
        env={
            "PATH": "/usr/bin:/bin",
            "MIRAGE_DIR": str(chain_dir),
            "MIRAGE_LINK": "1",
            "MIRAGE_STYLE": "",
            "SLURM_JOB_ID": "101",
        },
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize(
    ("verb", "style"),
    [(("wait",), "switch"), (("ready",), "serve"), (("wait", "--style=wait"), "wait")],
)
def test_a_lease_in_a_sequential_chain_is_told_once_which_style_it_needs(
    chain_dir: Path, verb: tuple[str, ...], style: str
) -> None:
    (chain_dir / "style").write_text("sequential\n")
    said = handover(chain_dir, *verb).stderr
    assert said.startswith("mirage: this chain is sequential")
    assert said.endswith(f"--mirage-style={style}\n")
    assert (chain_dir / "log").read_text().count("this chain is sequential") == 1
    assert handover(chain_dir, *verb).stderr == ""
    assert (chain_dir / "log").read_text().count("this chain is sequential") == 1


@pytest.mark.parametrize("style", ["concurrent", "switch", None])
def test_in_any_other_chain_nothing_is_said(chain_dir: Path, style: str | None) -> None:
    if style is not None:
        (chain_dir / "style").write_text(f"{style}\n")
    assert handover(chain_dir, "wait").stderr == ""


@pytest.mark.parametrize("style", ["sequential", "concurrent", ""])
def test_a_profile_that_asks_for_no_hand_over_leaves_a_program_as_it_is(
    module: Any, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    monkeypatch.setenv("MIRAGE_STYLE", style)
    assert module.Handover().style == "wait"
