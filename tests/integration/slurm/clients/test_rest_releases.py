"""Slurmrestd on what each release answers: tests/data/slurmrestd-moves holds answers of real ones
(deploy/testbed/capture_rest_moves.py), a file for each version."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.query_gate import BackoffSettings
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.restd.envelope import TESTED_VERSIONS
from tests.support.cluster.restd import OPENAPI, FakeRestd, serving_restd
from tests.support.paths import DATA
from tests.support.patient import PATIENCE_S

_DATA = DATA / "slurmrestd-moves"
_FILES = sorted(_DATA.glob("*.json"))
_IMPATIENT = BackoffSettings(first_pause_s=0.001, longest_pause_s=0.001)


class Release:
    """A fake slurmrestd that answers as a real one of that version did."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._file = file
        self.version = file.stem
        self.answers: dict[str, Any] = json.loads(file.read_text())["answers"]
        self.restd = FakeRestd(folder)
        self.replay(OPENAPI, "openapi")
        self.cluster = Slurmrestd(
            RestHttp(self.restd.url, timeout_s=PATIENCE_S),
            backoff=_IMPATIENT,
        )

    @property
    def has_triples(self) -> bool:
        return _has_triples(self._file)

    @property
    def running(self) -> JobId:
        return JobId(self.answers["jobs"]["running"])

    @property
    def standby(self) -> JobId:
        return JobId(self.answers["jobs"]["waiting"])

    @property
    def span(self) -> tuple[int, int]:
        return self.answers["jobs"]["since"], self.answers["jobs"]["until"]

    def replay(self, path: str, *names: str, method: str = "GET") -> None:
        """From now on such requests get these captured answers in turn."""
        told = [(self.answers[name]["status"], self.answers[name]["body"]) for name in names]
        self.restd.answers_in_turn(path, *told, method=method)

    def job(self, job_id: int | str) -> str:
        return f"/slurm/{self.version}/job/{job_id}"

    def records(self) -> str:
        return f"/slurmdb/{self.version}/jobs"

    def shown(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.answers[name]["body"]["jobs"][0]
        return found

    def uid(self) -> int:
        return int(self.shown("held")["user_id"])

    def sent(self, method: str, path: str) -> list[Any]:
        return [asked.body for asked in self.restd.calls(path) if asked.method == method]


@pytest.fixture(params=_FILES, ids=lambda file: file.stem)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Release]:
    made = Release(request.param, tmp_path)
    with serving_restd(made.restd):
        yield made


def _where(holds: Callable[[Path], bool]) -> pytest.MarkDecorator:
    """With the versions alone whose answers the test is about."""
    files = [file for file in _FILES if holds(file)]
    return pytest.mark.parametrize(
        "release", files, ids=[file.stem for file in files], indirect=True
    )


def _has_triples(file: Path) -> bool:
    return file.stem != "v0.0.38"


def _takes_no_empty_list(file: Path) -> bool:
    (shown,) = json.loads(file.read_text())["answers"]["after-unpin-by-empty"]["body"]["jobs"]
    return bool(shown["required_nodes"])


def test_each_version_that_was_tried_has_its_answers() -> None:
    assert {file.stem for file in _FILES} == set(TESTED_VERSIONS)


def test_its_version_is_spoken(release: Release) -> None:
    spoken = release.cluster.get_dialect()
    assert (spoken.version, spoken.is_tested, spoken.accounting) == (release.version, True, True)


def test_a_pin_is_taken_back(release: Release) -> None:
    at = release.job(release.standby)
    behind = f"afterany:{release.running}"
    release.replay(at, "pinned", "unpinned")
    release.replay(at, "unpin", method="POST")
    release.cluster.set_dependency(
        release.standby, owner=release.uid(), dependency=behind, unpin=True
    )
    (sent,) = release.sent("POST", at)
    assert sent["dependency"] == behind
    assert sent["required_nodes" if release.has_triples else "nodelist"] in ("", [""])


@_where(_takes_no_empty_list)
def test_a_pin_that_stays_is_no_success(release: Release) -> None:
    """An empty list: HTTP 200, no error, no warning, and the job as it was."""
    at = release.job(release.standby)
    release.replay(at, "pinned", "after-unpin-by-empty")
    release.replay(at, "unpin-by-empty", method="POST")
    behind = f"afterany:{release.running}"
    with pytest.raises(ClusterUnavailable, match="its node list is still 'gpu0"):
        release.cluster.set_dependency(
            release.standby, owner=release.uid(), dependency=behind, unpin=True
        )


def test_a_dependency_that_stays_is_no_success(release: Release) -> None:
    at = release.job(release.standby)
    release.replay(at, "held")
    release.replay(at, "unpin", method="POST")
    with pytest.raises(ClusterUnavailable, match="its dependency is still 'afterany:"):
        release.cluster.free_standby(release.standby, owner=release.uid(), dependency="")


def test_a_refused_move_is_a_no(release: Release) -> None:
    at = release.job(release.standby)
    release.replay(at, "held")
    release.replay(at, "update-refused", method="POST")
    with pytest.raises(ClusterRefused, match="Invalid user id"):
        release.cluster.free_standby(release.standby, owner=release.uid(), dependency="")


def test_a_refused_cancel_is_a_no(release: Release) -> None:
    """v0.0.40 and v0.0.41 tell nothing: the job, which is as it was, does."""
    at = release.job(release.standby)
    release.replay(at, "held")
    release.replay(at, "cancel-refused", method="DELETE")
    with pytest.raises(ClusterRefused, match=r"denied|is still PENDING"):
        release.cluster.cancel_job(release.standby, owner=release.uid())


def test_what_is_over_is_cancelled_already(release: Release) -> None:
    victim = JobId(release.shown("cancelled")["job_id"])
    at = release.job(victim)
    release.replay(at, "cancelled")
    for answer in ("cancel", "cancel-ended"):
        release.replay(at, answer, method="DELETE")
        release.cluster.cancel_job(victim, owner=release.uid())


def test_an_unknown_job_is_not_touched(release: Release) -> None:
    at = release.job(999_999)
    release.replay(at, "unknown")
    with pytest.raises(ClusterRefused):
        release.cluster.cancel_job(JobId(999_999), owner=release.uid())
    assert release.sent("DELETE", at) == []


@_where(_has_triples)
def test_history_is_asked_for_with_its_times_as_they_are(release: Release) -> None:
    release.replay(release.records(), "window")
    since, until = release.span
    by_id = {job.job_id: job for job in release.cluster.fetch_history(since, until)}
    run, standby = by_id[release.running], by_id[release.standby]
    assert run.start is not None
    assert (run.start < since, run.end, run.state) == (True, None, JobState.RUNNING)
    assert (standby.start, standby.end, standby.state) == (None, None, JobState.PENDING)
    (asked,) = release.restd.calls(release.records())
    assert "disable_truncate_usage_time=true" in asked.query


@_where(_has_triples)
def test_no_end_is_believed_of_what_is_not_over(release: Release) -> None:
    """Cut to the window, a job that runs has an end, and one that waits has a start as well."""
    release.replay(release.records(), "window-cut")
    for job in release.cluster.fetch_history(*release.span):
        if not job.state.has_ended:
            assert job.end is None
        if job.state.is_waiting:
            assert job.start is None


def test_jobs_are_asked_for_by_id(release: Release) -> None:
    release.replay(release.records(), "by-id" if release.has_triples else "by-id-in-one")
    ids = [JobId(job["job_id"]) for job in release.answers["by-id-in-one"]["body"].get("jobs", ())]
    ids = ids or [JobId(job["job_id"]) for job in release.answers["by-id"]["body"]["jobs"]]
    found: dict[JobId, Job] = {job.job_id: job for job in release.cluster.fetch_job_records(ids)}
    (asked,) = release.restd.calls(release.records())
    apart, one = [f"step={job_id}" for job_id in ids], f"step={ids[0]}%2C{ids[1]}"
    assert set(apart if release.has_triples else [one]) <= set(asked.query.split("&"))
    failed, cancelled = (found[job_id] for job_id in sorted(ids))
    assert (failed.state, cancelled.state) == (JobState.FAILED, JobState.CANCELLED)
    # v0.0.38 says 0 of a job that exited with 7.
    assert failed.exit_code == ("7:0" if release.has_triples else "")
    assert (cancelled.exit_code != "") == release.has_triples


@_where(_has_triples)
def test_a_list_of_ids_that_is_not_understood_is_no_history(release: Release) -> None:
    release.replay(release.records(), "by-id-in-one")
    with pytest.raises(ClusterUnavailable):
        release.cluster.fetch_job_records([JobId(1), JobId(2)])


def test_a_slurmdbd_that_is_away_is_said_in_slurms_words(release: Release) -> None:
    """Whatever the status: 200 on 22.05, 502 later, which is a proxy's as well."""
    release.replay(release.records(), "dbd-away")
    with pytest.raises(ClusterUnavailable, match="Unable to connect to database"):
        release.cluster.fetch_job_records([JobId(1)])


@pytest.mark.parametrize("trouble", ["forged-token", "ctld-away"])
def test_without_an_answer_of_slurmctld_nothing_is_known(release: Release, trouble: str) -> None:
    release.replay(release.job(release.standby), trouble)
    with pytest.raises(ClusterUnavailable):
        release.cluster.free_standby(release.standby, owner=release.uid(), dependency="")


def test_after_an_upgrade_the_next_question_is_asked_in_the_new_version(release: Release) -> None:
    """What the old version's path says is no JSON; no question fails for it."""
    release.cluster.get_dialect()
    release.replay(release.records(), "no-such-path")
    document = json.loads(json.dumps(release.answers["openapi"]["body"]))
    other = "v0.0.44" if release.version != "v0.0.44" else "v0.0.43"
    text = json.dumps(document).replace(release.version, other)
    release.restd.answers_in_turn(OPENAPI, (200, text), method="GET")
    answer = release.answers["window" if release.has_triples else "by-id-in-one"]
    at = f"/slurmdb/{other}/jobs"
    release.restd.answers_in_turn(at, (answer["status"], answer["body"]), method="GET")
    assert list(release.cluster.fetch_history(*release.span))
    assert release.cluster.get_dialect().version == other
