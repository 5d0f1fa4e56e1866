"""Judges the challenger and the champion on the hand-overs of newer days, and carries out what
comes of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mirage.database.chains import chains
from mirage.database.chains.chains import HandoverRow
from mirage.database.jobs import job_history
from mirage.database.learning.challenges import Challenge
from mirage.domain.arrays import Ints
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import DAY_S
from mirage.judging.challenge import (
    CHALLENGER,
    CHAMPION,
    RULES,
    ChallengeOutcomes,
    judge_challenge,
    judge_champion,
)
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.evaluation.policy_evaluation import EvaluationRequest, run_evaluation
from mirage.lab.learning import site_replay, week_tables
from mirage.lab.learning.chain_shapes import ChainShape, parse_shapes
from mirage.lab.learning.deadline import UntilDeadline
from mirage.lab.learning.forecast_losses import ModelUse, measure_forecasts
from mirage.lab.learning.history_facts import HistoryFacts, find_covered_until, list_weeks
from mirage.lab.learning.learn_request import BudgetSpent, LearnRequest
from mirage.lab.learning.reasons import DayLosses
from mirage.lab.learning.run_budget import Paces
from mirage.lab.learning.run_folder import PACES, read_json, write_json
from mirage.lab.site_history import find_cluster_id
from mirage.lab.study_output import StudyOutput
from mirage.lab.whole_files import remove_path
from mirage.policies import registry, site_models
from mirage.policies.registry import AUTO
from mirage.provision.learning.model_promoter import ModelPromoter, PromotionMode

MOST_HANDOVERS = 1000
"""Of the site's own hand-overs so many are replayed."""
_SETTLED = "settled.json"
_SNAPSHOT = "settle-"
_QUANTILE = RULES[1]
_SAMPLE = 0
"""The owner of sample hand-overs. Owners of chains have numbers from 1."""


def settle_models(request: LearnRequest, output: StudyOutput) -> list[str]:
    """Settle what is due: judge the challenger after its time in shadow, and the champion whenever
    a new week can be replayed. Return sentences about what came of it.

    Only hand-overs count that began after the challenger was put forward; for the champion those
    of the newest days after all that it has learned from.
    """
    with request.store.read() as tx:
        cluster_id = find_cluster_id(tx, request.cluster)
        last = None if cluster_id is None else job_history.read_last_submission(tx, cluster_id)
    document = read_json(request.folder.path / "shapes.json") or {}
    chosen = parse_shapes(document, request.params)
    if cluster_id is None or last is None:
        return []
    promoter = ModelPromoter(
        store=request.store,
        cluster_id=cluster_id,
        cluster=request.cluster,
        models_dir=request.models,
        channels=request.channels,
    )
    promoter.settle_intentions(request.now)
    sentences: list[str] = []
    if chosen is not None:
        covered = find_covered_until(last, chosen.shapes[0].time_limit_s)
        settling = _Settling(request, promoter, chosen.shapes, covered, output)
        sentences = settling.settle_due()
    _report_not_asked(request, promoter)
    return sentences


def read_not_asked(request: LearnRequest) -> dict[str, str] | None:
    """Read whether the model in use decides nothing: its name as `model`, and as `why` a sentence
    on the reason and the remedy. None: it decides, or there is none."""
    champion = request.champion
    if champion is None:
        return None
    damage = site_models.explain_damage(champion, request.models)
    if damage:
        return {"model": champion, "why": damage}
    not_asked: dict[str, str] | None = _read_settled(request).get("not_asked")
    return not_asked if not_asked and not_asked["model"] == champion else None


def _report_not_asked(request: LearnRequest, promoter: ModelPromoter) -> None:
    """Tell the admins that the model in use decides nothing, once until it decides again."""
    not_asked, settled = read_not_asked(request), _read_settled(request)
    model = None if not_asked is None else not_asked["model"]
    if model == settled.get("told"):
        return
    if not_asked is not None:
        promoter.report_not_asked(not_asked["model"], not_asked["why"], request.now)
    write_json(request.folder.path / _SETTLED, settled | {"told": model})


def _read_settled(request: LearnRequest) -> dict[str, Any]:
    return read_json(request.folder.path / _SETTLED) or {}


def read_losses(request: LearnRequest) -> DayLosses | None:
    """Read how good the forecasts of the champion were on the newest days, by the last look; None
    if that is not known."""
    losses = _read_settled(request).get("losses")
    if not losses or losses["champion_model"] != request.champion:
        return None
    return DayLosses(
        day=np.array(losses["day"], dtype=np.int64),
        champion=np.array(losses["champion"], dtype=np.float64),
        quantile=np.array(losses["quantile"], dtype=np.float64),
        measured_at=int(losses.get("measured_at", 0)),
    )


@dataclass(slots=True)
class _Settled:
    """What came of a look."""

    sentences: list[str] = field(default_factory=list)
    losses: dict[str, Any] | None = None
    """The forecasts of the champion by day, as JSON."""
    not_asked: dict[str, str] | None = None
    """The champion as `model`, and `why` it decides nothing; None: it decides."""


@dataclass(frozen=True, slots=True)
class _Settling:
    request: LearnRequest
    promoter: ModelPromoter
    shapes: Sequence[ChainShape]
    covered: int
    """Until when whole weeks can be replayed."""
    output: StudyOutput

    def settle_due(self) -> list[str]:
        """Settle what is due, keep what was measured, and return sentences on what came of it.

        A champion that cannot be loaded is not judged.
        """
        request = self.request
        shadow_s = request.rules.shadow_days * DAY_S
        challenge = self.promoter.find_due_challenge(shadow_s=shadow_s, now=self.covered)
        champion, before = self._find_usable_champion(), _read_settled(request)
        is_champion_due = champion is not None and before.get("covered", 0) < self.covered
        if challenge is None and not is_champion_due:
            return []
        judged = self.settle(challenge, champion if is_champion_due else None)
        after = {**before, "covered": self.covered}
        if is_champion_due:
            after |= {"losses": judged.losses, "not_asked": judged.not_asked}
        write_json(request.folder.path / _SETTLED, after)
        return judged.sentences

    def settle(self, challenge: Challenge | None, champion: str | None) -> _Settled:
        """Judge the champion first, then the challenger, each if it is given."""
        request, mode = self.request, PromotionMode(self.request.rules.promote)
        settled = _Settled()
        sentences = settled.sentences
        with self._open_snapshot() as snapshot:
            if champion is not None:
                since = self._find_champion_since(champion)
                tables, owners = self._load_tables(since, snapshot)
                if tables:
                    use = self._measure_champion(champion, tables, owners, settled)
                    verdict = judge_champion(self._judge({CHAMPION: champion}, tables, owners))
                    is_taken_back = self.promoter.settle_champion(
                        verdict, mode=mode, now=request.now
                    )
                    what = "is taken back" if is_taken_back else "stays in use"
                    use_note = f"; {use.explain()}" if use.explain() else ""
                    sentences.append(f"{champion} {what}: it {verdict.explain()}{use_note}.")
            if challenge is not None:
                names = {
                    CHALLENGER: challenge.model,
                    CHAMPION: self._find_usable_champion() or AUTO,
                }
                tables, owners = self._load_tables(challenge.proposed_at, snapshot)
                if tables:
                    verdict = judge_challenge(self._judge(names, tables, owners))
                    judgement = self.promoter.settle_challenge(
                        challenge, verdict, mode=mode, now=request.now
                    )
                    sentences.append(
                        f"{challenge.model} was judged ({judgement}): it {verdict.explain()}."
                    )
        return settled

    @contextmanager
    def _open_snapshot(self) -> Iterator[Path]:
        """Open the folder of the history by which these weeks are judged.

        It stays if the look is interrupted: jobs in Slurm are known by their input, and the next
        look goes on with them.
        """
        folder = self.request.folder.path
        snapshot = folder / f"{_SNAPSHOT}{self.covered}"
        for left in folder.glob(f"{_SNAPSHOT}*"):  # of other weeks
            if left != snapshot:
                remove_path(left)
        # The copy of the jobs names users, whom PrivateData may hide from others.
        snapshot.mkdir(mode=0o700, exist_ok=True)
        is_interrupted = False
        try:
            yield snapshot
        except (BudgetSpent, KeyboardInterrupt):
            is_interrupted = True
            raise
        finally:
            if not is_interrupted:
                remove_path(snapshot)

    def _find_usable_champion(self) -> str | None:
        """Find the champion, if it can be loaded. Without one a challenger has to beat `auto`."""
        champion = self.promoter.find_champion()
        if champion is None or site_models.explain_damage(champion, self.request.models):
            return None
        return champion

    def _find_champion_since(self, champion: str) -> int:
        """Find from when on the champion is judged: the newest days, after all that it learned."""
        newest = self.covered - self.request.rules.rollback_days * DAY_S
        scope = registry.load_model(champion, self.request.models).artefact.scope
        learned = [until for name, until in scope.training_ends if name == self.request.params.name]
        return max(newest, *learned) if learned else newest

    def _measure_champion(
        self,
        champion: str,
        tables: Mapping[Path, EpisodeTable],
        owners: Ints,
        settled: _Settled,
    ) -> ModelUse:
        """Measure at how many hand-overs the champion was asked, and by day how good its forecasts
        and those of `quantile` were; keep both in `settled`."""
        policies = {
            CHAMPION: registry.load_model(champion, self.request.models),
            _QUANTILE: registry.get_policy(_QUANTILE),
        }
        measured = {
            role: [measure_forecasts(table, policy) for table in tables.values()]
            for role, policy in policies.items()
        }
        losses = {
            role: np.concatenate([forecasts.loss_h for forecasts in parts])
            for role, parts in measured.items()
        }
        days = DayLosses.from_forecasts(
            start_point=np.concatenate([table.start_point for table in tables.values()]),
            owner=owners,
            champion=losses[CHAMPION],
            quantile=losses[_QUANTILE],
            measured_at=self.request.now,
        )
        settled.losses = {
            "champion_model": champion,
            "measured_at": days.measured_at,
            "day": days.day.tolist(),
            "champion": days.champion.tolist(),
            "quantile": days.quantile.tolist(),
        }
        use = ModelUse.from_obstacles(why for part in measured[CHAMPION] for why in part.obstacles)
        if use.decides_nothing:
            says = (
                f"{champion} is in use, but decides as good as nothing: on the newest days "
                f"{use.explain()}. The next training learns from these days. You may take the "
                "model back on the page Admin"
            )
            settled.not_asked = {"model": champion, "why": says}
        return use

    def _judge(
        self, names: Mapping[str, str], tables: Mapping[Path, EpisodeTable], owners: Ints
    ) -> ChallengeOutcomes:
        """Compute the costs of policies, by their role, and of the rules, on these tables."""
        request = EvaluationRequest(
            paths=list(tables),
            tables=list(tables.values()),
            names=list(dict.fromkeys((*names.values(), *RULES))),
            models=self.request.models,
            overlap_price=OVERLAP_PRICE,
        )
        judged = run_evaluation(request, self.output)
        roles = {**names, **{name: name for name in RULES}}
        start_point = np.concatenate([table.start_point for table in tables.values()])
        return ChallengeOutcomes(
            start_point=start_point,
            owner=owners,
            cost_h={
                role: judged.collect_handovers(name).compute_cost_h(OVERLAP_PRICE)
                for role, name in roles.items()
            },
        )

    def _load_tables(self, since: int, snapshot: Path) -> tuple[dict[Path, EpisodeTable], Ints]:
        """Make and load the tables of the days since an instant, and the owner of each hand-over:
        sample hand-overs every six hours, and the site's own. There may be none."""
        request, folder = self.request, self.request.folder.path
        history = snapshot / "history.parquet"
        site_replay.export_history(request, history, self.output)
        facts = HistoryFacts.from_file(history)
        log_replay = site_replay.load_site_replay(request, history)
        limit_s = self.shapes[0].time_limit_s
        weeks = [
            week for week in list_weeks(facts, limit_s, request.rules.weeks) if week.until > since
        ]
        own = self._list_own_handovers(since)
        samples = week_tables.list_units(folder, request.params, weeks, self.shapes)
        owned = week_tables.list_own_units(
            folder, request.params, weeks, {s: list(starts) for s, starts in own.items()}
        )
        missing = [unit for unit in (*samples, *owned) if not unit.is_made]
        points = sum(len(unit.points) for unit in missing)
        paces = Paces.load(folder / PACES)
        executor = paces.bound_executor(request.executor, request.budget)
        with self.output.show_progress("tables of newer days", points) as on_progress:
            week_tables.make_units(
                missing,
                request.params,
                log_replay.workload.jobs,
                UntilDeadline(executor, request.budget.deadline),
                on_progress,
            )
        tables, owners = {}, []
        uids = sorted({uid for starts in own.values() for uid in starts.values()})
        numbers = {uid: number for number, uid in enumerate(uids, start=1)}
        loaded = week_tables.load_shape_tables(samples)
        unfinished = loaded.unfinished
        for shape, table in loaded.by_shape.items():
            newer = _select_since(table, since)
            tables[snapshot / f"{shape.folder}.npz"] = newer
            owners.append(np.full(len(newer), _SAMPLE))
        for unit in owned:
            if unit.path.exists():
                table, left_out = week_tables.load_finished(unit)
                unfinished += left_out
                tables[snapshot / f"{unit.shape.folder}-{unit.path.name}"] = table
                starts = own[unit.shape]
                owners.append(np.array([numbers[starts[at]] for at in table.start_point.tolist()]))
        if unfinished:
            self.output.warn(week_tables.explain_unfinished(unfinished))
        judged_tables = {path: table for path, table in tables.items() if len(table)}
        return judged_tables, np.concatenate([np.zeros(0), *owners]).astype(np.int64)

    def _list_own_handovers(self, since: int) -> dict[ChainShape, dict[int, int]]:
        """List the hand-overs of the site's chains of these shapes, the newest ones: the owner's
        uid by the predecessor's start."""
        with self.request.store.read() as tx:
            rows = chains.list_handovers(tx, self.promoter.cluster_id, since)
        return select_own_handovers(rows, self.shapes, since=since, until=self.covered)


def select_own_handovers(
    rows: Sequence[HandoverRow],
    shapes: Sequence[ChainShape],
    *,
    since: int,
    until: int,
    most: int = MOST_HANDOVERS,
) -> dict[ChainShape, dict[int, int]]:
    """Select the hand-overs of these shapes whose predecessor began within [since, until), at most
    `most`: the owner's uid by the predecessor's start.

    Of more, each owner's newest are taken in turn, so that nobody's chains displace the others'.
    """
    alike = {(s.partition, s.nodes, s.time_limit_s): s for s in shapes}
    turns = Counter[int]()
    fitting: list[tuple[int, ChainShape, int, int]] = []
    for chain, link, _ in reversed(rows):
        shape = alike.get((link.partition, link.nodes, link.time_limit_s or 0))
        if shape is not None and since <= (link.start or 0) < until:
            turns[chain.uid] += 1
            fitting.append((turns[chain.uid], shape, link.start or 0, chain.uid))
    fitting.sort(key=lambda row: row[0])
    own: dict[ChainShape, dict[int, int]] = {shape: {} for shape in shapes}
    for _, shape, start, uid in fitting[:most]:
        own[shape][start] = uid
    return own


def _select_since(table: EpisodeTable, since: int) -> EpisodeTable:
    rows = np.flatnonzero(table.start_point >= since)
    return table.select_episodes(rows)
