"""Walk-forward at home: what a site gains that begins with an empty database and learns by itself.

`python -m benchmarks.learning_at_home DIR --trace ls6|theta|thetagpu [--every N]` plays a site from
a published trace. Every N weeks the jobs of these weeks go into a database in DIR, as accounting
had them by then; then `mirage learn` looks, with learn.promote = "auto". The policy `auto`, with
what is promoted, decides the weeks after. At the end their cost is printed week by week, beside
plain Slurm, `average`, `quantile`, the twin alone, and the model that ships, on weeks that it has
not learned from.

All that is made lies in DIR, and an interrupted command goes on when it is run again. Hours of a
core, most of them for the twin's answers. A run that reaches the validation weeks of a trace reads
them: announce it first in docs/research/validation-reads.md, or end before them with --until.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mirage.config.settings import LearnSettings
from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.arrays import Floats, Ints
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.job import Job, JobState
from mirage.errors import MirageError
from mirage.history.cluster_files.reader import load_cluster_file
from mirage.history.formats.trace_file import open_trace
from mirage.judging.owner_weighed_test import WeighedDifference
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.evaluation.policy_evaluation import (
    EvaluationRequest,
    has_learned_since,
    run_evaluation,
)
from mirage.lab.learning import site_replay, week_tables
from mirage.lab.learning.chain_shapes import ChainShape, parse_shapes
from mirage.lab.learning.history_facts import WEEK_S, HistoryFacts, ReplayedWeek, list_weeks
from mirage.lab.learning.learn_request import LearnRequest
from mirage.lab.learning.nightly_look import run_learning
from mirage.lab.learning.run_budget import Budget
from mirage.lab.learning.run_folder import RunFolder, read_json, write_json
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.pair_options import parse_instant
from mirage.lab.training.trainers import FamilyName
from mirage.policies import registry
from mirage.policies.registry import AUTO, MODELS
from mirage.shipped_files import get_data_dir
from mirage.simulator.types import Params, SimJob

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"
HOME = "auto at home"
RULES = ("reactive", "average", "quantile", "twin")
_LATER_S = 4 * WEEK_S
"""Jobs of so long after the last judged week are read: its hand-overs wait among them."""
FIRST_WEEKS = 5
"""From the fifth week on the issue expects a gain."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A published trace, and the weeks of it that are played."""

    file: str
    cluster: str
    since: str
    until: str
    every: int
    """Weeks between two looks."""
    shipped: str


TRACES = {
    "ls6": Trace(
        "tacc-ls6-a100.parquet", "ls6.toml", "2022-11-07", "2023-02-27", 1, "ensemble-ls6"
    ),
    "theta": Trace(
        "alcf-theta-2023.parquet", "theta.toml", "2023-01-02", "2023-05-29", 4, "ensemble-theta"
    ),
    "thetagpu": Trace(
        "alcf-thetagpu-2023.parquet",
        "thetagpu.toml",
        "2023-01-02",
        "2023-05-29",
        4,
        "ensemble-thetagpu",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSite:
    """A site that is played from a trace."""

    folder: Path
    trace: Path
    params: Params
    since: int
    """A Monday, 0:00 UTC: the first submission that the site sees."""
    until: int
    every: int
    """Weeks between two looks."""
    families: tuple[FamilyName, ...] = ()
    processes: int = 1
    budget_h: float = 2.0
    shipped: str | None = None
    """The model that ships and is judged beside, models/NAME."""

    @property
    def looks(self) -> list[int]:
        """The instants at which the site learns, epoch seconds."""
        step_s = self.every * WEEK_S
        return list(range(self.since + step_s, self.until, step_s))

    def walk(self, output: StudyOutput) -> list[dict[str, Any]]:
        """Learn at each look, then judge the weeks after each. Return for each look `look`,
        `champion`, and its hand-overs' `start_point` and `cost_h` by policy."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with closing(self._open_store("mirage.db")) as store:
            for before, now in pairwise([0, *self.looks]):
                if not self._get_look(now).exists():
                    self._take_in(store, before, now)
                    self._look(store, now, output)
        spans = list(pairwise([*self.looks, self.until]))
        if not all(self._get_judged(*span).exists() for span in spans):
            self._judge_spans(spans, output)
        return [json.loads(self._get_judged(*span).read_text()) for span in spans]

    def _open_store(self, name: str) -> Store:
        url = f"sqlite:///{self.folder.absolute()}/{name}"
        schema_migrations.upgrade_schema(url, REPOSITORY / "migrations")
        return Store(url)

    def _take_in(self, store: Store, before: int, now: int) -> None:
        """Store what accounting said at `now` and had not said at `before`."""
        with open_trace(self.trace) as trace:
            for batch in trace.iter_batches():
                news = [
                    censor_job(job, now)
                    for job in batch
                    if self.since <= job.submit < now and (job.end is None or job.end >= before)
                ]
                with store.begin() as tx:
                    cluster_id = clusters.ensure_cluster(tx, self.params.name)
                    job_history.upsert_jobs(tx, cluster_id, news)

    def _look(self, store: Store, now: int, output: StudyOutput) -> None:
        """Let the site learn, and keep what came of it and the models that are in use then."""
        document: dict[str, Any] = {"state": "interrupted"}
        while document["state"] == "interrupted":
            request = self._build_request(store, now)
            document = run_learning(request, output)
        models_copy = self._get_models(now)
        part = models_copy.with_name(f".{models_copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(request.models, part)
        shutil.rmtree(models_copy, ignore_errors=True)
        os.replace(part, models_copy)
        shapes = read_json(request.folder.path / "shapes.json")
        verdict = document | {"now": now, "champion": request.champion, "shapes": shapes}
        write_json(self._get_look(now), verdict)

    def _build_request(self, store: Store, now: int) -> LearnRequest:
        models = self.folder / MODELS
        models.mkdir(exist_ok=True)
        return LearnRequest(
            cluster=self.params.name,
            store=store,
            params=self.params,
            folder=RunFolder(self.folder / "learn"),
            models=models,
            rules=LearnSettings(promote="auto"),
            budget=Budget(wall_s=self.budget_h * 3600, memory_gib=4, processes=self.processes),
            executor=LocalProcesses(self.processes),
            now=now,
            families=self.families,
        )

    def _get_look(self, now: int) -> Path:
        return self.folder / f"look-{_format_day(now)}.json"

    def _get_models(self, now: int) -> Path:
        """Return the folder of the models that were in use after a look."""
        return self.folder / f"look-{_format_day(now)}-models"

    def _get_judged(self, now: int, end: int) -> Path:
        return self.folder / f"judged-{_format_day(now)}-{_format_day(end)}.json"

    def _judge_spans(self, spans: Sequence[tuple[int, int]], output: StudyOutput) -> None:
        """Judge the weeks after each look, with the models that were in use then.

        Their last hand-overs wait among later jobs, so the whole trace is read. The site's own
        database has none of the later ones.
        """
        last = self.until + _LATER_S
        history = self.folder / "whole.parquet"
        history.unlink(missing_ok=True)
        with closing(self._open_store("whole.db")) as store:
            self._take_in(store, 0, last)
            request = self._build_request(store, last)
            site_replay.export_history(request, history, output)
        facts = HistoryFacts.from_file(history)
        jobs = site_replay.load_site_replay(request, history).workload.jobs
        for now, end in spans:
            if not self._get_judged(now, end).exists():
                verdict = read_json(self._get_look(now)) or {}
                shapes = parse_shapes(verdict.get("shapes") or {}, self.params)
                # Without shapes there was too little history to choose any.
                tables = (
                    {}
                    if shapes is None
                    else self._load_tables(
                        list_weeks(facts, shapes.shapes[0].time_limit_s, request.rules.weeks),
                        (now, end),
                        shapes.shapes,
                        jobs,
                        output,
                    )
                )
                costs = self._compute_costs(tables, now, output) if tables else {}
                write_json(
                    self._get_judged(now, end),
                    {"look": _format_day(now), "champion": verdict.get("champion")} | costs,
                )

    def _load_tables(
        self,
        weeks: Sequence[ReplayedWeek],
        span: tuple[int, int],
        shapes: Sequence[ChainShape],
        jobs: Sequence[SimJob],
        output: StudyOutput,
    ) -> dict[Path, EpisodeTable]:
        """Load the tables of the weeks in a span. Those that learning has not made are made."""
        within = [week for week in weeks if span[0] <= week.since and week.until <= span[1]]
        units = week_tables.list_units(self.folder / "learn", self.params, within, shapes)
        points = sum(len(unit.points) for unit in units if not unit.is_made)
        with output.show_progress("tables of judged weeks", points) as on_progress:
            week_tables.make_units(
                units, self.params, jobs, LocalProcesses(self.processes), on_progress
            )
        loaded = week_tables.load_shape_tables(units).by_shape
        return {self.folder / f"{shape.folder}.npz": table for shape, table in loaded.items()}

    def _compute_costs(
        self, tables: Mapping[Path, EpisodeTable], now: int, output: StudyOutput
    ) -> dict[str, Any]:
        costs = _play((*RULES, AUTO), tables, self._get_models(now), output)
        costs[HOME] = costs.pop(AUTO)
        models = get_data_dir(MODELS)
        if self.shipped is not None and is_unseen(self.shipped, models, tables):
            costs |= _play((self.shipped,), tables, models, output)
        starts = np.concatenate([table.start_point for table in tables.values()])
        return {
            "start_point": starts.tolist(),
            "cost_h": {name: cost_h.round(4).tolist() for name, cost_h in costs.items()},
        }


def censor_job(job: Job, now: int) -> Job:
    """Return a job as accounting had it at `now`: what came later is not known."""
    if job.end is not None and job.end < now:
        return job
    has_begun = job.start is not None and job.start < now
    return replace(
        job,
        state=JobState.RUNNING if has_begun else JobState.PENDING,
        start=job.start if has_begun else None,
        end=None,
        cancelled_at=None,
        elapsed_s=None,
        exit_code="",
    )


def is_unseen(name: str, models: Path, tables: Mapping[Path, EpisodeTable]) -> bool:
    """Return whether a model can be asked about these chains and has not learned from the weeks."""
    model = registry.load_model(name, models)
    abouts = [table.metadata for table in tables.values()]
    fits = all(
        model.artefact.scope.explain_outside(about.nodes, about.time_limit_s) is None
        for about in abouts
    )
    return fits and not any(
        has_learned_since(model, str(about.cluster.get("name", "")), about.since)
        for about in abouts
    )


def _play(
    names: Sequence[str], tables: Mapping[Path, EpisodeTable], models: Path, output: StudyOutput
) -> dict[str, Floats]:
    """Return the cost [E] in hours of each policy on these hand-overs."""
    request = EvaluationRequest(
        paths=list(tables),
        tables=list(tables.values()),
        names=names,
        models=models,
        overlap_price=OVERLAP_PRICE,
    )
    judged = run_evaluation(request, output)
    return {name: judged.collect_handovers(name).compute_cost_h(OVERLAP_PRICE) for name in names}


def list_rows(judged: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """List the weeks: `week`, `handovers`, `champion`, and the mean `cost_h` by policy."""
    rows = []
    for span in judged:
        starts = np.array(span.get("start_point", ()), dtype=np.int64)
        week = (starts - _MONDAY) // WEEK_S
        for number in np.unique(week):
            of_week = week == number
            costs = {k: np.array(v)[of_week].mean() for k, v in span["cost_h"].items()}
            rows.append(
                {
                    "week": _format_day(_MONDAY + int(number) * WEEK_S),
                    "handovers": int(of_week.sum()),
                    "champion": span["champion"],
                    "cost_h": {k: round(float(v), 3) for k, v in costs.items()},
                }
            )
    return rows


_MONDAY = 4 * 86400
"""1970-01-05, epoch seconds."""


def compare(judged: Sequence[Mapping[str, Any]], rival: str, since: int = 0) -> str | None:
    """Say what `auto` at home costs more or less than a rival, over the hand-overs of both; None:
    there is none. `since`: only hand-overs from then on."""
    spans = [span for span in judged if rival in span.get("cost_h", ())]
    if not spans:
        return None
    starts: Ints = np.concatenate([np.array(span["start_point"]) for span in spans])
    home, other = (
        np.concatenate([np.array(span["cost_h"][name]) for span in spans]) for name in (HOME, rival)
    )
    later = starts >= since
    if not later.any():
        return None
    difference = WeighedDifference.from_differences(
        starts[later],
        np.zeros(int(later.sum()), dtype=np.int64),
        (home - other)[later],
        error=0.025,
    )
    return f"{home[later].mean():.3f} h, {rival} {other[later].mean():.3f} h: {difference}"


def render(site: HomeSite, judged: Sequence[Mapping[str, Any]]) -> str:
    """Render the weeks, and the comparisons, for people."""
    rows = list_rows(judged)
    names = [*RULES, HOME, *([site.shipped] if site.shipped else [])]
    lines = [f"{'week':12}{'hand-overs':>11}" + "".join(f"{name:>22}" for name in names)]
    for row in rows:
        costs = (row["cost_h"].get(name) for name in names)
        cells = "".join(f"{'-' if cost is None else f'{cost:.3f}':>22}" for cost in costs)
        lines.append(f"{row['week']:12}{row['handovers']:>11}{cells}  {row['champion'] or 'none'}")
    later = site.since + (FIRST_WEEKS - 1) * WEEK_S
    for title, since in (("all weeks", 0), ("from the fifth week on", later)):
        lines.append(f"\n{HOME}, mean cost a hand-over, {title}:")
        lines += [text for name in names if name != HOME and (text := compare(judged, name, since))]
    lines.append("\nlooks:")
    for now in site.looks:
        verdict = read_json(site.folder / f"look-{_format_day(now)}.json") or {}
        sentences = [*verdict.get("settled", ()), str(verdict.get("sentence", ""))]
        lines.append(f"{_format_day(now)}  {' '.join(sentences)}")
    return "\n".join(lines)


def _format_day(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def build_site(words: argparse.Namespace) -> HomeSite:
    trace = TRACES[words.trace]
    return HomeSite(
        folder=words.folder,
        trace=SHARED / "traces" / trace.file,
        params=load_cluster_file(SHARED / "clusters" / trace.cluster).params,
        since=parse_instant(trace.since, "since"),
        until=parse_instant(words.until or trace.until, "--until"),
        every=words.every or trace.every,
        families=tuple(FamilyName(family) for family in words.family),
        processes=words.jobs,
        shipped=f"{MODELS}/{trace.shipped}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--trace", choices=sorted(TRACES), required=True)
    parser.add_argument("--every", type=int, metavar="N", help="weeks between two looks")
    parser.add_argument("--until", metavar="DAY", help="end before this day: 2023-02-13")
    parser.add_argument("--family", action="append", default=[], choices=list(FamilyName))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    site = build_site(words)
    output = StudyOutput(
        lambda text: print(text, file=sys.stderr), lambda *_: nullcontext(lambda *_: None)
    )
    try:
        judged = site.walk(output)
    except MirageError as error:
        sys.exit(f"{words.trace}: {error}")
    print(json.dumps(list_rows(judged)) if words.json else render(site, judged))


if __name__ == "__main__":
    main()
