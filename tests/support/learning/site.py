"""A site with a database and a folder of models, whose nights are told by the day of its log."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.config.settings import LearnSettings
from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import Challenge
from mirage.database.learning.learning_runs import RunState
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.history.formats.trace_file import open_trace
from mirage.history.ingest.trace_import import import_trace
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.learning.learn_request import LearnRequest
from mirage.lab.learning.nightly_look import run_learning
from mirage.lab.learning.run_budget import Budget
from mirage.lab.learning.run_folder import RunFolder
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.trainers import FamilyName
from tests.support.episodes.tables import DAY_S, MONDAY
from tests.support.learning.site_log import build_params, build_site_jobs, write_sacct
from tests.support.paths import MIGRATIONS

_LOG_DAYS = 60
SILENT = StudyOutput(lambda _: None, lambda *_: nullcontext(lambda *_: None))


@dataclass(frozen=True, slots=True)
class Site:
    folder: Path
    store: Store

    def log_days(self, days: int) -> None:
        """Store the accounting of so many days in all: the beginning of one and the same log."""
        until = MONDAY + days * DAY_S
        jobs = [job for job in build_site_jobs(_LOG_DAYS) if job.submit < until]
        log = write_sacct(self.folder / "log.txt", jobs)
        with open_trace(log) as trace:
            import_trace(self.store, "lab", trace, lambda _: None)

    def build_request(self, day: int, **changes: Any) -> LearnRequest:
        values: dict[str, Any] = {
            "cluster": "lab",
            "store": self.store,
            "params": build_params(),
            "folder": RunFolder(self.folder / "learn"),
            "models": self.folder / "models",
            "rules": LearnSettings(),
            "budget": Budget(wall_s=7200, memory_gib=4, processes=2),
            "executor": LocalProcesses(2),
            "families": (FamilyName.XGBOOST,),
            "now": MONDAY + day * DAY_S,
        }
        return LearnRequest(**values | changes)

    def look(self, day: int, **changes: Any) -> dict[str, Any]:
        return run_learning(self.build_request(day, **changes), SILENT)

    def list_challenges(self) -> list[Challenge]:
        with self.store.read() as tx:
            return challenges.read_challenges(tx, 1, most=9)

    def list_states(self) -> list[RunState]:
        with self.store.read() as tx:
            return [run.state for run in learning_runs.read_runs(tx, 1, most=99)]


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    url = f"sqlite:///{folder}/mirage.db"
    (folder / "models").mkdir(exist_ok=True)
    schema_migrations.upgrade_schema(url, MIGRATIONS)
    with closing(Store(url)) as store:
        yield Site(folder, store)
