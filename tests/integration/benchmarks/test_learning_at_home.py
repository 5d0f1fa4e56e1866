"""`python -m benchmarks.learning_at_home`: a site that learns week by week from a log."""

from contextlib import closing, nullcontext

import pytest

from benchmarks.learning_at_home import HOME, RULES, HomeSite, censor_job, list_rows, render
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobId, JobState
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.trainers import FamilyName
from tests.support.episodes.tables import DAY_S, MONDAY
from tests.support.learning.site_log import build_params, build_site_jobs, write_sacct

LOOK = MONDAY + 28 * DAY_S
SILENT = StudyOutput(lambda _: None, lambda *_: nullcontext(lambda *_: None))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> HomeSite:
    folder = tmp_path_factory.mktemp("home")
    return HomeSite(
        folder=folder / "walk",
        trace=write_sacct(folder / "log.txt", build_site_jobs(46)),
        params=build_params(),
        since=MONDAY,
        until=MONDAY + 42 * DAY_S,
        every=4,
        families=(FamilyName.XGBOOST,),
    )


def test_each_week_after_a_look_is_decided_with_what_was_in_use_then(site: HomeSite) -> None:
    judged = site.walk(SILENT)
    rows = list_rows(judged)
    assert [row["week"] for row in rows] == ["2023-12-18", "2023-12-25"]
    assert all(set(row["cost_h"]) == {*RULES, HOME} for row in rows)
    assert all(row["handovers"] == 2 * 7 * 4 for row in rows), "two shapes, each six hours"
    text = render(site, judged)
    assert "from the fifth week on" in text
    assert f"{HOME}, mean cost a hand-over, all weeks" in text
    names = {path.name for path in site.folder.iterdir()}
    before = {name: (site.folder / name).stat().st_mtime_ns for name in names}
    assert site.walk(SILENT) == judged, "an interrupted command goes on"
    kept = {name for name in names if name.startswith(("look-", "judged-"))}
    assert len(kept) == 3
    assert {name: (site.folder / name).stat().st_mtime_ns for name in kept} == {
        name: before[name] for name in kept
    }
    with closing(Store(f"sqlite:///{site.folder}/mirage.db")) as store, store.read() as tx:
        jobs = job_history.list_jobs(tx, 1, limit=9999)
    assert max(job.submit for job in jobs) < LOOK, "the site has not seen the weeks to come"
    assert all(job.end is None or job.end < LOOK for job in jobs)
    assert any(job.end is None for job in jobs)


@pytest.mark.parametrize(
    ("start", "end", "state", "kept"),
    [
        (5, 9, JobState.COMPLETED, (5, 9)),
        (5, 10, JobState.RUNNING, (5, None)),
        (10, 12, JobState.PENDING, (None, None)),
        (None, 12, JobState.PENDING, (None, None)),
    ],
)
def test_a_job_is_as_accounting_had_it_at_the_look(
    start: int | None, end: int, state: JobState, kept: tuple[int | None, int | None]
) -> None:
    job = Job(job_id=JobId(1), submit=1, state=JobState.COMPLETED, start=start, end=end)
    censored = censor_job(job, 10)
    assert (censored.state, censored.start, censored.end) == (state, *kept)
