"""`mirage_slurm.Chain`: how a chain stands, the wait for its end, and its cancelling."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.fakes import FakeSlurm

LINK: dict[str, object] = {
    "index": 1,
    "job_id": 101,
    "state": "ended",
    "end_state": "TIMEOUT",
    "waits_for": None,
    "position": "held",
    "reason": "",
}
ANSWER: dict[str, object] = {
    "state": "active",
    "note": "",
    "at_risk": None,
    "expected_start": None,
    "stale": False,
    "links": [
        LINK,
        LINK | {"index": 2, "job_id": 102, "state": "running", "end_state": None, "waits_for": 1},
        LINK
        | {"index": 3, "job_id": 103, "state": "pending", "end_state": None, "reason": "Priority"},
    ],
}


class Scene:
    """A chain of three links on the fake Slurm, in the environment of this process."""

    def __init__(self, slurm: FakeSlurm, module: Any, program: Any) -> None:
        self.slurm, self.module, self.program = slurm, module, program
        self.chain = module.submit(["true"], chain=3)
        self.directory = Path(self.chain.directory)

    def begin(self, link: int) -> None:
        """Write what the link's carrier writes as it begins, and queue the next link."""
        self.write(f"started/{link}", str(100 + link))
        self.write(f"jobs/{link}", str(100 + link))
        self.slurm.job_is(100 + link, "RUNNING")
        if link < 3:
            self.slurm.has_queued(101 + link, f"mirage:{self.chain.id}:{link + 1}")
            self.write(f"jobs/{link + 1}", str(101 + link))

    def end(self, link: int, word: str) -> None:
        self.write(f"ends/{link}", word)
        self.leave(100 + link)

    def leave(self, *jobs: int) -> None:
        """Let jobs leave the queue."""
        path = self.slurm.root / "queue"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(li for li in lines if int(li.split()[0]) not in jobs))

    def write(self, name: str, line: str) -> None:
        (self.directory / name).write_text(f"{line}\n")

    @property
    def cancelled(self) -> list[str]:
        path = self.slurm.root / "scancelled"
        return path.read_text().splitlines() if path.exists() else []

    def states(self) -> list[tuple[int, int, str, str]]:
        return [(li.number, li.job_id, li.state, li.end_state) for li in self.chain.links]


@pytest.fixture
def scene(plugin: Callable[[str], Any], slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Scene:
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(slurm.root / "home")
    return Scene(slurm, plugin("mirage_slurm"), plugin("mirage_slurm.api.chain"))


@pytest.fixture
def pauses(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which takes any time: a clock of the test's own."""
    made: list[float] = []
    monkeypatch.setattr(scene.program.time, "sleep", made.append)
    monkeypatch.setattr(scene.program.time, "monotonic", lambda: sum(made))
    return made


def test_the_links_of_a_chain_from_submission_to_end(scene: Scene) -> None:
    assert scene.states() == [(1, 101, "pending", "")]
    scene.begin(1)
    assert scene.states() == [(1, 101, "running", ""), (2, 102, "pending", "")]
    scene.end(1, "timeout")
    assert scene.states() == [(1, 101, "ended", "TIMEOUT"), (2, 102, "pending", "")]
    scene.begin(2)
    scene.end(2, "exit 3")
    scene.begin(3)
    assert scene.states()[1] == (2, 102, "ended", "FAILED")
    assert scene.chain.state == "active"
    scene.end(3, "exit 0")
    assert scene.chain.state == "finished"
    assert scene.states()[2] == (3, 103, "ended", "COMPLETED")
    assert "all 3 links have run; nobody said that the work is done" in scene.chain.explain()


def test_a_job_that_has_just_left_the_line_runs(scene: Scene) -> None:
    scene.slurm.job_is(101, "RUNNING")
    assert scene.states() == [(1, 101, "running", "")]


def test_a_chain_is_found_again_by_its_id(scene: Scene) -> None:
    again = scene.module.Chain(scene.chain.id)
    assert again.directory == scene.chain.directory
    assert scene.module.Chain(f"{scene.directory}/").links == scene.chain.links
    for text in ("", "..", "a b", "no-such-chain"):
        with pytest.raises(ValueError, match="is not a chain's id"):
            scene.module.Chain(text)
    with pytest.raises(scene.module.ChainError, match="no chain of yours"):
        scene.module.Chain("0" * 20).state  # noqa: B018


@pytest.mark.parametrize(
    ("marker", "reason", "end", "state"),
    [
        ("done", "", "exit 0", "finished"),
        ("paused", "two links in a row failed", "exit 1", "paused"),
        ("stop", "link 1 was cancelled", "cancelled", "cancelled"),
        ("stop", "by alice with mirage-link stop", "exit 0", "cancelled"),
        ("stop", "link 1 ended as FAILED, and this chain", "exit 1", "failed"),
        ("stop", "link 1 ended as COMPLETED, and this chain", "exit 0", "finished"),
    ],
)
def test_a_marker_says_how_the_chain_ended(
    scene: Scene, marker: str, reason: str, end: str, state: str
) -> None:
    scene.begin(1)
    scene.write(marker, reason)
    assert scene.chain.state == ("paused" if state == "paused" else "active"), "link 1 still runs"
    scene.end(1, end)
    scene.leave(102)
    assert scene.chain.state == state
    assert f"chain {scene.chain.id} is {state}\n" in scene.chain.explain()
    assert reason in scene.chain.explain()


def test_a_link_that_has_ended_and_sees_to_the_next_one_is_no_end(scene: Scene) -> None:
    scene.begin(1)
    scene.leave(102)  # sbatch has refused it
    scene.write("ends/1", "exit 0")
    assert scene.chain.state == "active"
    assert scene.states() == [(1, 101, "running", ""), (2, 102, "ended", "")]
    scene.leave(101)
    assert scene.chain.state == "failed"
    assert f"To submit the next link: mirage-link resume {scene.chain.id}" in scene.chain.explain()


def test_a_first_job_that_left_before_it_began_is_a_cancelled_chain(scene: Scene) -> None:
    scene.leave(101)
    assert scene.chain.state == "cancelled"


def test_a_silent_squeue_is_no_end_of_a_chain(scene: Scene, pauses: list[float]) -> None:
    (scene.slurm.root / "slurm.down").touch()
    with pytest.raises(scene.module.ChainError, match="Slurm does not say how chain"):
        scene.chain.state  # noqa: B018
    with pytest.raises(TimeoutError, match="wait\\(\\) again, or cancel\\(\\) it"):
        scene.chain.wait(timeout=300)
    assert sum(pauses) == 300


def test_it_waits_with_a_bounded_rate_until_the_chain_is_over(
    scene: Scene, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.begin(1)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        (scene.slurm.root / "slurm.down").unlink(missing_ok=True)
        if len(pauses) == 1:
            (scene.slurm.root / "slurm.down").touch()
        if len(pauses) == 6:
            scene.write("done", "")
            scene.end(1, "exit 0")
            scene.leave(102)

    monkeypatch.setattr(scene.program.time, "sleep", pause)
    assert scene.chain.wait() == "finished"
    assert pauses == [10, 20, 40, 60, 60, 60]


def test_a_timeout_of_nothing_looks_once(scene: Scene, pauses: list[float]) -> None:
    with pytest.raises(TimeoutError):
        scene.chain.wait(timeout=0)
    assert pauses == []
    scene.write("paused", "two links in a row failed")
    assert scene.chain.wait(timeout=0) == "paused"


def test_cancelling_ends_all_jobs_and_lets_no_link_begin(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.begin(1)
    monkeypatch.setenv("SCANCEL_USER", "somebody")
    assert scene.chain.cancel() == [102, 101]
    assert scene.cancelled == ["102 101"]
    assert re.match("by .* with mirage-link stop, ", (scene.directory / "stop").read_text())
    scene.end(1, "cancelled")
    assert scene.chain.state == "cancelled"
    assert scene.chain.cancel() == []
    assert scene.cancelled == ["102 101"], "nothing is left to cancel"


def test_a_chain_that_has_not_begun_is_cancelled(scene: Scene) -> None:
    scene.chain.cancel()
    assert scene.cancelled == ["101"]
    assert scene.chain.state == "cancelled"


def test_both_jobs_of_a_link_that_gives_its_nodes_back_are_cancelled(scene: Scene) -> None:
    scene.begin(1)
    scene.slurm.has_queued(110, f"mirage:{scene.chain.id}:2")
    scene.slurm.has_queued(111, "mirage:0000000000anotherone:2")
    scene.chain.cancel()
    assert scene.cancelled == ["110 102 101"]


def test_a_cancelling_that_slurm_does_not_hear_stops_the_chain_and_says_what_is_left(
    scene: Scene,
) -> None:
    (scene.slurm.root / "slurm.down").touch()
    with pytest.raises(
        scene.module.ChainError, match="No further link begins; cancel the chain again"
    ):
        scene.chain.cancel()
    assert (scene.directory / "stop").exists()


def test_jobs_that_cannot_be_cancelled_are_named(scene: Scene) -> None:
    scene.begin(1)
    scene.slurm.command("scancel", "#!/bin/sh\necho 'scancel: error: no answer' >&2\nexit 1\n")
    with pytest.raises(
        scene.module.ChainError, match=r"no answer; no further link begins, .*: scancel 102 101"
    ):
        scene.chain.cancel()
    assert (scene.directory / "stop").exists()


# --- with a service ------------------------------------------------------------------------------


def test_the_service_says_how_the_chain_stands(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    risk = {"says": "link 3 (job 103) waits: its nodes are down", "advice": "Wait."}
    decisions = {"items": [{"last_at": "2026-03-02T12:00:00Z", "link": 3, "reason": "95\x1b min"}]}
    service.answers = [ANSWER]
    assert scene.states() == [
        *[(1, 101, "ended", "TIMEOUT"), (2, 102, "running", ""), (3, 103, "pending", "")]
    ]
    service.answers = [ANSWER | {"state": "failed", "at_risk": risk}, decisions]
    assert scene.chain.explain().splitlines() == [
        f"chain {scene.chain.id} is failed",
        "at risk: link 3 (job 103) waits: its nodes are down. Wait.",
        "link 1 (job 101): TIMEOUT",
        "link 2 (job 102): waits for link 1",
        "link 3 (job 103): held (Priority)",
        r"2026-03-02T12:00:00Z, link 3: 95\x1b min",
    ]
    paths = [path for path, _ in service.requests]
    assert paths[-1] == f"/api/v1/chains/{scene.chain.id}/decisions?limit=5"


@pytest.mark.parametrize(
    "answer",
    [404, 503, ANSWER | {"stale": True}, ANSWER | {"links": []}, {"of": "a later release"}],
    ids=["unknown chain", "no answer", "stale", "no link yet", "another form"],
)
def test_where_the_service_knows_less_the_files_say_it(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    service.answers = [answer]
    assert scene.states() == [(1, 101, "pending", "")]
    assert len(service.requests) == 1
    assert scene.chain.explain()


def test_a_chain_of_its_own_asks_no_service(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    service.answers = [ANSWER]
    chain = scene.module.submit(["true"], chain=2, service="none")
    chain.explain()
    chain.cancel()
    assert service.requests == []
    assert service.posted == []


def test_the_service_hears_of_the_cancelling(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    service.answers = [503]
    scene.chain.cancel()
    assert service.posted == [(f"/api/v1/chains/{scene.chain.id}/cancel", b"")]
    assert scene.cancelled == ["101"], "the user's own scancel is not late"


@pytest.mark.parametrize("code", [401, 403, 409, 429])
def test_a_service_that_refuses_the_cancelling_is_quoted_once_the_jobs_are_cancelled(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    service.answers, service.post_status = [503], code
    said = rf"cancelled jobs: 101\), but the service refuses .*: {code}: the reason"
    with pytest.raises(scene.module.ChainError, match=said):
        scene.chain.cancel()
    assert scene.cancelled == ["101"]


def test_a_service_that_knows_no_such_chain_refuses_nothing(
    scene: Scene, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_URL", service.url)
    service.answers, service.post_status = [404], 404
    assert scene.chain.cancel() == [101]
