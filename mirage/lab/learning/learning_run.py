"""A run of learning: from the service's own database to a verdict, in stages that are kept."""

import os
import resource
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirage.database.chains.chain_shapes import OwnedShape, read_owned_shapes
from mirage.database.learning import challenges
from mirage.database.operations import clusters
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError, MirageError
from mirage.history.workloads.replay import Replay
from mirage.judging.challenge import RULES
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.local_processes import run_apart
from mirage.lab.learning import candidates, site_calibration, site_replay, week_tables
from mirage.lab.learning.candidates import CandidateTraining, JudgedPolicies
from mirage.lab.learning.chain_shapes import (
    ChainShape,
    ChosenShapes,
    choose_shapes,
    parse_shapes,
)
from mirage.lab.learning.deadline import UntilDeadline
from mirage.lab.learning.history_facts import WEEK_S, HistoryFacts, count_days, list_weeks
from mirage.lab.learning.learn_request import BudgetSpent, LearnRequest, NothingToLearn
from mirage.lab.learning.run_budget import (
    Paces,
    RunPlan,
    build_plan,
    check_days,
    is_left_to_next_run,
    plan_run,
)
from mirage.lab.learning.run_folder import (
    PACES,
    keep_stage,
    move_folder,
    read_json,
    write_json,
)
from mirage.lab.learning.week_tables import TableUnit
from mirage.lab.site_history import find_cluster_id
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.pair_options import LEAD_IN_S
from mirage.lab.training.artefact_training import train_artefact
from mirage.lab.training.metrics.time_splits import TooFewEpisodes
from mirage.lab.training.trainers import FamilyName
from mirage.lab.whole_files import remove_path
from mirage.policies import registry
from mirage.policies.registry import MODELS
from mirage.reports.recommendation import LogWaits

Document = dict[str, Any]

SHAPES_STAND_S = 90 * DAY_S
"""Shapes of chain stay for so long, since tables of other shapes are made from the beginning."""
KEPT_VERSIONS = 3
"""Candidates of so many runs are kept of each family."""
_VERDICT = "verdict.json"
_SHAPES = "shapes.json"
_PLACING = "placing.json"
"""The file of a run that has the version of the model that it puts forward."""


class LearningRun:
    """The stages of one run."""

    def __init__(
        self, request: LearnRequest, output: StudyOutput, scratch: Path | None = None
    ) -> None:
        """`scratch`: the folder of a dry run, which changes nothing else."""
        self._request = request
        self._folder = request.folder
        self._scratch = scratch
        self._warn = output.warn
        self._output = StudyOutput(self._add_note, output.show_progress)
        self._paces = Paces.load(request.folder.path / PACES)
        self._document: Document = {}
        self._notes: list[str] = []
        self._stage_s: dict[str, float] = {}

    def learn(self) -> Document:
        """Go through all stages, and return the document of the verdict."""
        families = self._check_families()
        self.check_models_folder()
        begun = self._folder.open_run(self._request.now)
        plan = self.plan()
        stage = self._folder.run / _VERDICT
        verdict = read_json(stage)
        if verdict is None:
            try:
                self._reach_verdict(plan, str(begun["version"]), families)
            except TooFewEpisodes as error:  # where jobs wait for days, hand-overs overlap for days
                raise NothingToLearn(
                    "There is too little history to learn from: the hand-overs of these "
                    f"{count_days(plan.weeks)} days overlap too long to learn from some and judge "
                    "on others."
                ) from error
            write_json(stage, self.build_document())
        else:
            self._document |= verdict
        self._calibrate(self._folder.history)
        self._clean_up(plan)
        return self.build_document()

    def _reach_verdict(self, plan: RunPlan, version: str, families: Sequence[FamilyName]) -> None:
        """Make the tables, train, judge, and put the best candidate forward."""
        with self._time_stage("tables"):
            self._make_tables(plan)
        loaded = week_tables.load_shape_tables(plan.units)
        if loaded.unfinished:
            self._add_note(week_tables.explain_unfinished(loaded.unfinished))
        tables = loaded.by_shape
        if not tables:
            raise NothingToLearn("No hand-over of these weeks could be simulated to its end.")
        judged = self._train_and_judge(tables, plan, version, families)
        best = judged.find_best([n for n in judged.figures if n.startswith(f"{MODELS}/candidate-")])
        self._document |= self._put_forward(best, judged, tables, version)
        self._document["trained_at"] = self._request.now

    def plan(self) -> RunPlan:
        """Read the history, choose the shapes, and plan the run. Raises NothingToLearn."""
        request = self._request
        families = self._check_families()
        with self._time_stage("history"):
            history = self._folder.history
            if self._scratch is not None:
                earlier_copy, history = self._find_stage(history), self._scratch / history.name
                if earlier_copy != history and earlier_copy.exists():
                    shutil.copyfile(earlier_copy, history)
            site_replay.export_history(request, history, self._output)
            facts = HistoryFacts.from_file(history)
            self._document["history"] = facts.build_document()
            self._replay = site_replay.load_site_replay(request, history)
            self._document["rows"] = site_replay.count_rows(self._replay)
        chosen = self._choose_shapes(self._replay)
        limit_s = chosen.shapes[0].time_limit_s
        weeks = list_weeks(facts, limit_s, request.rules.weeks)
        if too_few := check_days(weeks, facts.days, limit_s):
            raise NothingToLearn(" ".join([too_few, *facts.list_sentences()[1:]]))
        self._keep_shapes(chosen)
        with self._time_stage("comparing waits"):
            self._check_waits(history, chosen.shapes, facts)
        units = week_tables.list_units(self._folder.path, request.params, weeks, chosen.shapes)
        self._plan = plan = self._keep_plan(units, families)
        self._document["plan"] = plan.build_document()
        return plan

    def _find_stage(self, file: Path) -> Path:
        """Return where a stage is kept. A dry run reads those of the run that is gone on with."""
        if self._scratch is None or self._folder.find_open_run(self._request.now) is not None:
            return file
        return self._scratch / file.name

    def _keep_plan(self, units: Sequence[TableUnit], families: Sequence[FamilyName]) -> RunPlan:
        """Return the plan with which the run began: by now more weeks may fit, and candidates that
        are trained already have learned from the weeks of the first plan."""
        budget, stage = self._request.budget, self._find_stage(self._folder.run / "plan.json")
        spent_s = time.monotonic() - budget.begun
        first_plan = read_json(stage)
        if first_plan is not None:
            planned_units = [unit for unit in units if unit.week.name in first_plan["weeks"]]
            return build_plan(
                planned_units,
                [f for f in families if f in first_plan["families"]],
                self._paces,
                budget,
                spent_s,
            )
        plan = plan_run(units, families, self._paces, budget, spent_s)
        self._notes += plan.notes
        if self._scratch is None:
            weeks = [week.name for week in plan.weeks]
            write_json(stage, {"weeks": weeks, "families": list(plan.families)})
        return plan

    def build_document(self) -> Document:
        """Return what is known so far."""
        peak_gib = max(map(_read_peak_gib, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        return self._document | {
            "notes": list(self._notes),
            "took_s": {stage: round(seconds, 1) for stage, seconds in self._stage_s.items()},
            "peak_gib": round(peak_gib, 2),
        }

    def _add_note(self, text: str) -> None:
        if text in self._notes:
            return
        self._notes.append(text)
        self._warn(text)

    @contextmanager
    def _time_stage(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._stage_s[name] = self._stage_s.get(name, 0.0) + time.monotonic() - begun

    def _check_families(self) -> list[FamilyName]:
        request = self._request
        return candidates.check_packages(request.families, is_local=request.executor.is_local)

    def check_models_folder(self) -> None:
        """Raise InputError before the long work if no model could be put into use."""
        models = self._request.models
        above = next(p for p in (models, *models.absolute().parents) if os.path.exists(p))
        if not os.access(above, os.W_OK | os.X_OK):
            raise InputError(
                f"models of this site come into {models}, which cannot be written: set "
                "provision.models_dir to a folder of the service's account"
            )

    def _choose_shapes(self, replay: Replay) -> ChosenShapes:
        """Choose the shapes; those of earlier runs stand for a while."""
        request, chosen = self._request, self._find_standing_shapes()
        if chosen is None:
            owned: list[OwnedShape] = []
            with request.store.read() as tx:
                cluster_id = find_cluster_id(tx, request.cluster)
                since = request.now - request.rules.weeks * WEEK_S
                if cluster_id is not None:
                    owned = read_owned_shapes(tx, cluster_id, since=since)
            chosen = choose_shapes(owned, replay.workload.jobs, request.params)
        self._document["shapes"] = [shape.build_document() for shape in chosen.shapes]
        self._notes += chosen.notes
        return chosen

    def _keep_shapes(self, chosen: ChosenShapes) -> None:
        """Let the shapes stand from now on. Those of a history that is still too short do not: its
        site may begin with chains meanwhile."""
        if self._scratch is None and self._find_standing_shapes() is None:
            shapes = [shape.build_document() for shape in chosen.shapes]
            document = {"at": self._request.now, "shapes": shapes, "notes": chosen.notes}
            write_json(self._folder.path / _SHAPES, document)

    def _find_standing_shapes(self) -> ChosenShapes | None:
        """Return the shapes of earlier runs; None if there are none that still stand and fit."""
        shapes, now = read_json(self._folder.path / _SHAPES) or {}, self._request.now
        is_fresh = now - SHAPES_STAND_S <= shapes.get("at", 0) <= now
        return parse_shapes(shapes, self._request.params) if is_fresh else None

    def _check_waits(
        self, history: Path, shapes: Sequence[ChainShape], facts: HistoryFacts
    ) -> None:
        """Raises NothingToLearn if jobs wait for other spans in the replay than they did at the
        site, by the rule of the shadow report. Forced, the run goes on and proposes nothing."""
        since = dict.fromkeys((s.partition for s in shapes), facts.since + LEAD_IN_S)
        params = self._request.params

        def compare() -> Mapping[str, Any]:
            return run_apart(site_replay.compare_site_waits, history, params, since)

        stage = self._find_stage(self._folder.run / "waits.json")
        waits_by_partition = (
            (read_json(stage) or compare()) if self._scratch else keep_stage(stage, compare)
        )
        self._document["waits"] = dict(waits_by_partition)
        for name in since.keys() - waits_by_partition.keys():
            self._add_note(
                f"In partition {name} the replay could not be compared with the history, which has "
                "no wait there."
            )
        for waits in (LogWaits(**values) for values in waits_by_partition.values()):
            if not waits.agrees:
                sentence = (
                    f"The replay does not follow the history: in partition {waits.partition} "
                    f"{waits.jobs:,} jobs waited {waits.logged_h:.2f} h on average, and "
                    f"{waits.replayed_h:.2f} h in the replay, so nothing that is learned there is "
                    "proposed. Correct the cluster file: `mirage simulate --from-database`, "
                    "`mirage calibrate --from-database`."
                )
                if self._scratch is None:
                    self._calibrate(history)
                if not self._request.is_forced:
                    raise NothingToLearn(sentence)
                self._add_note(sentence)

    def _calibrate(self, history: Path) -> None:
        """Say whether another cluster file would replay the history better, if there is time."""
        left_s = self._request.budget.deadline - time.monotonic()
        with self._time_stage("fitting the cluster file"):
            try:
                calibration = site_calibration.renew_calibration(self._request, history, left_s)
            except MirageError as error:  # nothing that is learned depends on it
                self._add_note(f"The cluster file is not fitted to the history: {error}.")
                return
        if calibration is not None:
            self._document["calibration"] = calibration
            if calibration["is_new"]:
                self._add_note(calibration["sentence"])

    @property
    def _follows_log(self) -> bool:
        return all(LogWaits(**values).agrees for values in self._document["waits"].values())

    def _make_tables(self, plan: RunPlan) -> None:
        """Make the missing tables, newest week first. Raises BudgetSpent when time is over."""
        missing = plan.missing
        points = sum(len(unit.points) for unit in missing)
        if not points:
            return
        processes = min(self._paces.count_processes(self._request.budget), len(missing))
        begun, finished_points = time.monotonic(), 0
        reserved_s = min(plan.training_s, self._request.budget.wall_s / 2)

        def measure_pace() -> None:
            if self._request.executor.is_local:
                self._paces.measure_tables(time.monotonic() - begun, finished_points, processes)

        with self._output.show_progress("tables", points) as on_progress:

            def count_points(count: int) -> None:
                nonlocal finished_points
                finished_points += count
                on_progress(count)
                if (
                    finished_points < points
                    and time.monotonic() > self._request.budget.deadline - reserved_s
                ):
                    measure_pace()
                    raise self._end_for_now(
                        f"{finished_points} of {points} hand-overs are simulated"
                    )

            week_tables.make_units(
                missing,
                self._request.params,
                self._replay.workload.jobs,
                self._paces.bound_executor(self._request.executor, self._request.budget),
                count_points,
            )
        measure_pace()
        if self._request.executor.is_local:
            self._paces.measure_process(_read_peak_gib(resource.RUSAGE_CHILDREN))

    def _end_for_now(self, progress: str) -> BudgetSpent:
        hours = self._request.budget.wall_s / 3600
        return BudgetSpent(
            f"The budget of {hours:.1f} h is spent: {progress}, and the next run goes on."
        )

    def _train_and_judge(
        self,
        tables: Mapping[ChainShape, EpisodeTable],
        plan: RunPlan,
        version: str,
        families: Sequence[FamilyName],
    ) -> JudgedPolicies:
        """Train each family on the older weeks, and judge all on the newest."""
        newest = max(table.metadata.until for table in tables.values())
        cut = week_tables.choose_cut(newest, count_days(plan.weeks))
        run = self._folder.run
        past, later = {}, {}
        for shape, table in tables.items():
            earlier, newer = week_tables.split_newest(table, cut)
            past[run / "past" / f"{shape.folder}.npz"] = earlier
            later[run / "newest" / f"{shape.folder}.npz"] = newer
        later = {path: table for path, table in later.items() if len(table)}
        past = {path: table for path, table in past.items() if len(table)}
        if not past or not later:
            raise NothingToLearn("The weeks have too few hand-overs to learn and to judge.")
        for path, table in past.items():
            week_tables.save_with_twin(table, path)
        training = CandidateTraining(
            models=run / "models",
            version=version,
            tables=past,
            note=f"learned from the history of {self._request.cluster}, judged on newer weeks",
        )
        planned_families = [family for family in plan.families if family in families]
        with self._time_stage("training"):
            trained = candidates.train_candidates(
                training,
                planned_families,
                self._output,
                paces=self._paces,
                deadline=self._request.budget.deadline,
                executor=self._request.executor,
            )
        self._measure_memory(plan)
        names = [training.get_name(family) for family in trained]
        with self._time_stage("judging"):
            begun = time.monotonic()
            judged = candidates.judge_candidates(
                names, self._request.models, run / "models", later, self._output
            )
            self._paces.measure_judging(
                time.monotonic() - begun, candidates.count_instants(later.values())
            )
        self._document |= {
            "figures": dict(judged.figures),
            "judged_handovers": judged.handovers,
            "judged_since": cut,
            "judged_until": newest,
            "seen": list(judged.familiar),
        }
        return judged

    def _measure_memory(self, plan: RunPlan) -> None:
        peak_gib = _read_peak_gib(resource.RUSAGE_SELF)
        self._paces.measure_training(peak_gib, plan.units)
        most_gib = self._request.budget.memory_gib
        if peak_gib > most_gib:
            self._add_note(
                f"Training took {peak_gib:.1f} GiB, and learn.memory_gib is {most_gib:g}: the next "
                "run takes fewer weeks."
            )

    def _put_forward(
        self,
        best: str,
        judged: JudgedPolicies,
        tables: Mapping[ChainShape, EpisodeTable],
        version: str,
    ) -> Document:
        """Let the best candidate decide in shadow from now on, if it is cheaper than what decides
        without it; it then learns from all weeks. Return the verdict."""
        rivals = [name for name in RULES if name in judged.figures]
        champion = f"{MODELS}/{self._request.site_name}"
        # A champion that has learned from these weeks looks too good: the days to come will tell.
        if champion in judged.figures and champion not in judged.familiar:
            rivals.append(champion)
        rival = judged.find_best(rivals)
        figures = (
            f"{best} costs {judged.get_cost_h(best):.2f} h a hand-over on the newest weeks "
            f"({judged.handovers} hand-overs), and {rival} {judged.get_cost_h(rival):.2f} h"
        )
        if not self._follows_log:
            return {
                "proposed": None,
                "sentence": f"{figures}. Nothing is proposed: the replay does not follow the "
                "history.",
            }
        if judged.get_cost_h(best) >= judged.get_cost_h(rival):
            return {"proposed": None, "sentence": f"Nothing is proposed: {figures}."}
        standing = self._find_standing()
        if standing is not None and standing != self._get_placed():
            return {
                "proposed": None,
                "sentence": f"{figures}. It is not put forward, since {standing} decides in shadow "
                "and there is one challenger at a time.",
            }
        with self._time_stage("final training"):
            model_folder, target = self._train_final(best, tables, version)
        dearer = None if target.exists() else candidates.explain_dearer(model_folder)
        if dearer is not None:
            return {
                "proposed": None,
                "sentence": f"Nothing is proposed: {figures}. By the card of its training on all "
                f"weeks {dearer}, so `auto` would not ask it.",
            }
        if not target.exists():
            move_folder(model_folder, target)
        model = registry.format_model_name(target)
        if standing is None:
            self._start_challenge(model)
        days = self._request.rules.shadow_days
        return {
            "proposed": model,
            "sentence": f"{figures}. Trained on all weeks as {model}, it decides in shadow for "
            f"{days} days, and is then judged.",
        }

    def _start_challenge(self, model: str) -> None:
        request = self._request
        with request.store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, request.cluster)
            challenges.start_challenge(
                tx, cluster_id, model=model, champion=request.champion, at=request.now
            )

    def _get_placed(self) -> str | None:
        """Return the model that this run had put forward before it was interrupted."""
        placing = read_json(self._folder.run / _PLACING)
        return (
            None if placing is None else f"{MODELS}/{self._request.site_name}/{placing['version']}"
        )

    def _find_standing(self) -> str | None:
        with self._request.store.read() as tx:
            cluster_id = find_cluster_id(tx, self._request.cluster)
            if cluster_id is None:
                return None
            standing = challenges.find_standing_challenge(tx, cluster_id)
        return None if standing is None else standing.model

    def _train_final(
        self, best: str, tables: Mapping[ChainShape, EpisodeTable], version: str
    ) -> tuple[Path, Path]:
        """Train the best family on all weeks, unless an interrupted run did. Return the folder of
        the model, and its place among the models of the service."""
        request, run = self._request, self._folder.run
        placing = run / _PLACING
        placement = keep_stage(placing, lambda: {"version": _find_free(request, version)})
        target = request.models / request.site_name / str(placement["version"])
        model_folder = run / "final" / MODELS / request.site_name / target.name
        if not target.exists() and not model_folder.exists():
            family = FamilyName(best.split("/")[1].removeprefix("candidate-"))
            self._check_time_left(family)
            whole = {run / "whole" / f"{s.folder}.npz": table for s, table in tables.items()}
            for path, table in whole.items():
                week_tables.save_with_twin(table, path)
            note = f"learned from the history of {request.cluster}"
            train_artefact(
                candidates.build_request(family, whole, model_folder, is_final=True, note=note),
                self._output,
                UntilDeadline(request.executor, request.budget.deadline),
            )
        return model_folder, target

    def _check_time_left(self, family: FamilyName) -> None:
        """Raises BudgetSpent if the last training is better left to the next run."""
        left_s = self._request.budget.deadline - time.monotonic()
        needed_s = self._paces.estimate_final_s(family, self._plan.units)
        made_s = self._stage_s.get("tables", 0.0) + self._stage_s.get("training", 0.0)
        if is_left_to_next_run(needed_s, left_s=left_s, made_s=made_s):
            raise self._end_for_now(f"{family} is to be trained on all weeks")

    def _clean_up(self, plan: RunPlan) -> None:
        """Keep the candidates, and delete what no later run reads."""
        for candidate in sorted((self._folder.run / MODELS).glob("candidate-*/*")):
            if candidate.is_dir():
                family = candidate.parent.name.removeprefix("candidate-")
                _keep_candidate(candidate, self._folder.candidates / family)
        write_json(self._folder.path / _VERDICT, self.build_document())
        week_tables.remove_old_tables(self._folder.path, self._list_all_units(plan))
        self._folder.delete_run()

    def _list_all_units(self, plan: RunPlan) -> list[TableUnit]:
        """List the tables that a later run may read, those without room in this run included."""
        limit_s = plan.units[0].shape.time_limit_s
        facts = HistoryFacts.from_file(self._folder.history)
        weeks = list_weeks(facts, limit_s, self._request.rules.weeks)
        shapes = list(dict.fromkeys(unit.shape for unit in plan.units))
        return week_tables.list_units(self._folder.path, self._request.params, weeks, shapes)


def _read_peak_gib(of: int) -> float:
    """Read the most memory that one process has used so far: this one, or any that it ended."""
    return resource.getrusage(of).ru_maxrss / 2**20


def _find_free(request: LearnRequest, version: str) -> str:
    """Return the version, with a number behind it if it exists: versions do not change."""
    return _find_free_path(request.models / request.site_name / version).name


def _find_free_path(path: Path) -> Path:
    """Return the path, with a number behind it if it exists."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _keep_candidate(candidate: Path, versions_folder: Path) -> None:
    """Keep a candidate beside those of earlier runs, the newest of which stay."""
    move_folder(candidate, _find_free_path(versions_folder / candidate.name))
    versions = sorted(
        (path for path in versions_folder.iterdir() if path.is_dir()),
        key=lambda path: path.stat().st_mtime,
    )
    for old in versions[:-KEPT_VERSIONS]:
        remove_path(old)
