"""`mirage-link handover VERB`, and `mirage` that passes it on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import wait_until


def _verb(
    chain_dir: Path, *words: str, link: int = 1, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [PLUGIN / "mirage-link", "handover", *words],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "/usr/bin:/bin",
            "MIRAGE_DIR": str(chain_dir),
            "MIRAGE_LINK": str(link),
            "SLURM_JOB_ID": str(100 + link),
            "MIRAGE_HANDOVER_POLL_S": "0.02",
        },
    )
    assert done.returncode == code, done.stderr
    return done


def test_the_verbs_take_and_let_go_for_the_job(link: Any, chain_dir: Path) -> None:
    _verb(chain_dir, "release", code=3)
    _verb(chain_dir, "wait")
    _verb(chain_dir, "wait")
    trainer = link(1)
    assert trainer.begin(), "a program of the same job goes on with its lease"
    assert trainer.token == "1-101.0"
    assert "held by link 1 job 101" in _verb(chain_dir, "status").stdout
    _verb(chain_dir, "release")
    _verb(chain_dir, "release", code=3)
    _verb(chain_dir, "ready", "--address", "node7:8000", link=2)
    assert (chain_dir / "handover" / "address").read_text() == "node7:8000\n"
    assert "superseded" in _verb(chain_dir, "wait", code=3).stderr


@pytest.mark.parametrize("words", [["wait"], ["wait", "--asked"], ["ready"], ["release"]], ids=str)
def test_a_job_that_a_link_submitted_is_refused(chain_dir: Path, words: list[str]) -> None:
    (chain_dir / "jobs").mkdir()
    (chain_dir / "jobs" / "1").write_text("555\n")
    done = _verb(chain_dir, *words, code=3)
    assert "job 101 is no link of this chain, whose link 1 is job 555" in done.stderr
    assert not list((chain_dir / "handover" / "lease").iterdir())


def test_a_request_by_hand_saves_and_goes_on(link: Any, chain_dir: Path) -> None:
    """Nobody comes for the lease: the link takes it back."""
    first = link(1, takeover_s=0.2)
    assert first.begin()
    asked = threading.Thread(target=_verb, args=(chain_dir, "request"), kwargs={"link": 9})
    asked.start()
    wait_until(first.should_release)
    assert first.reason == "by-hand asks"
    assert not first.release()
    asked.join(60)
    assert first.token == "2-101.0"
    assert (chain_dir / "handover" / "verdict" / "1").read_text().startswith("took-back")
    _verb(chain_dir, "request", "--patience", "0.2", link=9, code=4)


def test_wrong_use_is_said(chain_dir: Path) -> None:
    _verb(chain_dir, "dance", code=2)
    _verb(chain_dir, code=2)
    done = subprocess.run(
        [PLUGIN / "mirage-link", "handover", "status"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "mirage-link handover: name a chain: MIRAGE_DIR is not set here\n"


def test_mirage_passes_the_verbs_on(chain_dir: Path) -> None:
    _verb(chain_dir, "wait")
    for words, shows in ((["handover", "status"], "held by link 1"), (["done"], "")):
        done = subprocess.run(
            [sys.executable, "-m", "mirage", *words],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"MIRAGE_DIR": str(chain_dir)},
        )
        assert done.returncode == 0, done.stderr
        assert shows in done.stdout
    assert (chain_dir / "done").exists()


def test_what_a_symbolic_link_points_at_is_not_read(
    link: Any, chain_dir: Path, tmp_path: Path
) -> None:
    first = link(1)
    assert first.begin()
    (tmp_path / "secret").write_text("secret")
    (chain_dir / "handover" / "address").symlink_to(tmp_path / "secret")
    shown = _verb(chain_dir, "status")
    assert "secret" not in shown.stdout
