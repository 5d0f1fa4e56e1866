"""Policies judged on episode tables: what `mirage evaluate`, `mirage report shadow` and the card of
a trained model have in common."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import Policy
from mirage.errors import InputError
from mirage.judging import policy_runner, walk_forward
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.policy_runner import OWN_PLAN, PlayedHandovers, Terms
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table_set import check_distinct
from mirage.lab.evaluation.auto_choices import AutoChoiceCounter
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.table_plan import warn_if_beyond_trace
from mirage.lab.tables.twin_asking import ask_twin_if_needed
from mirage.observation import spec
from mirage.policies.auto_policy import AutoPolicy, Candidate
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.registry import get_policy, is_model
from mirage.policies.rules.lead_rules import Quantile
from mirage.policies.rules.switch_price import SwitchQuantile

SWITCH = SwitchQuantile.name
"""The name of what a switch chain brings by the rule `quantile`, at its default price."""
MOST_RETURNS = 2
"""How often by default; that of chains, too (`slurm_plugin/mirage_wrapper/settings.py`)."""
ORACLE = "oracle"
"""The name of the best choice that could only be known afterwards. It is no policy."""
NO_POLICIES = (OWN_PLAN, SWITCH, ORACLE)
"""Names that are judged beside the service's policies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """A request to judge policies, and the tables to judge them on."""

    paths: Sequence[Path]
    tables: Sequence[EpisodeTable]
    """The tables of the files `paths`."""
    names: Sequence[str]
    """The names of the policies; `oracle` may be one of them."""
    models: Path
    """The folder of models."""
    overlap_price: float
    startup_h: float = 0.0
    most_returns: int = MOST_RETURNS
    """How often a link that starts early may give its nodes back."""
    guarded: bool = True
    """Whether the default max-overlap bounds how early a link may start."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of each policy in each table, and who decided for `auto`."""

    tables: Sequence[EpisodeTable]
    startup_h: float
    played: dict[str, list[PlayedHandovers]]
    heard: AutoChoiceCounter
    most_returns: int = 0

    def collect_handovers(self, name: str, places: Sequence[int] | None = None) -> HandoverOutcomes:
        """Return the outcomes of one policy over all tables, or over those at `places`."""
        at = range(len(self.tables)) if places is None else places
        parts = (
            HandoverOutcomes.from_choices(
                self.tables[k],
                self.played[name][k].chosen,
                self.startup_h,
                self.played[name][k].returns if self.most_returns else None,
            )
            for k in at
        )
        return HandoverOutcomes.join_outcomes(parts)

    def compute_reactive_h(self, places: Sequence[int] | None = None) -> Floats:
        """The reactive interruption that load classes go by, hours: without the startup time."""
        at = range(len(self.tables)) if places is None else places
        tables = [self.tables[k] for k in at]
        chosen = [policy_runner.choose_reactive(table) for table in tables]
        return join_handovers(tables, chosen, 0.0).interruption_h


def load_judged_table(path: Path, output: StudyOutput) -> EpisodeTable:
    """Load a table to judge policies on. Raises InputError for one without an episode."""
    table = EpisodeTable.load(path)
    if not len(table):
        raise InputError(f"{path} holds no episode")
    warn_if_beyond_trace(path, table, output)
    return table


def run_evaluation(request: EvaluationRequest, output: StudyOutput) -> Evaluation:
    """Ask each policy over the tables; compute the oracle and the links' own plans if named.

    Raises InputError where two tables share a hand-over, or a policy cannot be judged on one of
    them.
    """
    paths, tables, names = request.paths, request.tables, request.names
    asked = {name: get_policy(name, request.models) for name in names if name not in NO_POLICIES}
    check_distinct([table.about for table in tables], [t.start_point for t in tables])
    if any(map(is_model, names)):
        _check_features(paths, tables)
    ask_twin_if_needed(asked.values(), paths, tables, output)
    _warn_if_trained_on(asked.values(), paths, tables, output)
    terms = Terms(
        overlap_price=request.overlap_price, returns=request.most_returns, guarded=request.guarded
    )
    run = PolicyRunner(tables, terms, output, request.startup_h)
    played = {name: run.play_tables(name, asked.get(name)) for name in names}
    return Evaluation(tables, request.startup_h, played, run.heard, request.most_returns)


def join_handovers(
    tables: Sequence[EpisodeTable], chosen: Sequence[policy_runner.ChosenInstants], startup_h: float
) -> HandoverOutcomes:
    """Return the outcomes of the tables' hand-overs, in the order of the tables."""
    parts = (
        HandoverOutcomes.from_choices(t, c, startup_h) for t, c in zip(tables, chosen, strict=True)
    )
    return HandoverOutcomes.join_outcomes(parts)


class PolicyRunner:
    """Plays policies over tables. Each policy plays once, however many callers ask for it."""

    def __init__(
        self,
        tables: Sequence[EpisodeTable],
        terms: Terms,
        output: StudyOutput,
        startup_h: float = 0.0,
    ) -> None:
        """`terms`: what a link may do that starts early. `startup_h`: hours until a successor does
        useful work, which only the oracle's choice depends on."""
        self._tables = tables
        self._startup_h = startup_h
        self._terms = terms
        self.heard = AutoChoiceCounter()
        """Who decided for `auto`."""
        self._output = output
        self._known: dict[tuple[str, int], PlayedHandovers] = {}

    def play_tables(self, name: str, asked: Policy | None) -> list[PlayedHandovers]:
        """Return, for each table, what comes of the policy's choices.

        `asked` is None for `NO_POLICIES`, which are played without one of the service's.
        """
        if name == OWN_PLAN:
            return [self._play_own_plan(table) for table in self._tables]
        if name == SWITCH:
            # Its predecessor ends for it, so it never overlaps and gives nothing back.
            alone = Terms(overlap_price=self._terms.overlap_price)
            return [self._play_policy(SwitchQuantile(), t, alone) for t in self._tables]
        if asked is None:
            return [self._choose_oracle(table) for table in self._tables]
        if isinstance(asked, AutoPolicy):
            return [self._walk_auto(asked, place) for place in range(len(self._tables))]
        return [self._play_once(asked, place) for place in range(len(self._tables))]

    def _choose_oracle(self, table: EpisodeTable) -> PlayedHandovers:
        price = self._terms.overlap_price
        chosen = policy_runner.choose_oracle(table, price, self._startup_h)
        return PlayedHandovers(chosen, np.zeros(len(table), dtype=np.int64))

    def _play_own_plan(self, table: EpisodeTable) -> PlayedHandovers:
        with self._output.show_progress(OWN_PLAN, len(table)) as told:
            rule = Quantile(last=policy_runner.OWN_SAMPLE)
            return policy_runner.play_own_plan(table, rule, self._terms, lambda _: told())

    def _walk_auto(self, auto: AutoPolicy, place: int) -> PlayedHandovers:
        table = self._tables[place]
        auto = replace(
            auto, candidates=tuple(c for c in auto.candidates if not _has_learned_from(c, table))
        )
        return walk_forward.play_auto(auto, table, lambda p: self._play_once(p, place), self.heard)

    def _play_once(self, asked: Policy, place: int) -> PlayedHandovers:
        key = (asked.name, place)
        if key not in self._known:
            self._known[key] = self._play_policy(asked, self._tables[place], self._terms)
        return self._known[key]

    def _play_policy(self, asked: Policy, table: EpisodeTable, terms: Terms) -> PlayedHandovers:
        if asked.name == "reactive":
            chosen = policy_runner.choose_reactive(table)
            return PlayedHandovers(chosen, np.zeros(len(table), dtype=np.int64))
        heeded = _FallbackCounter(asked)
        with self._output.show_progress(asked.name, len(table)) as told:
            played = policy_runner.play_policy(table, heeded, terms, lambda _: told())
        heeded.warn_of_fallbacks(table, self._output)
        return played


class _FallbackCounter:
    """Wraps a policy, and counts how often it could not be asked. Its figures are then partly
    those of a rule."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name, self.needs = policy, policy.name, policy.needs
        self.decide_outright, self.explain_unfit = policy.decide_outright, policy.explain_unfit
        self._why: Counter[str | None] = Counter()

    def decide(self, view: PolicyView) -> Decision:
        if not isinstance(self._policy, AutoPolicy):
            self._why[self.explain_unfit(view)] += 1
        return self._policy.decide(view)

    def warn_of_fallbacks(self, table: EpisodeTable, output: StudyOutput) -> None:
        stood_in = sum(n for why, n in self._why.items() if why is not None)
        if stood_in:
            why = max((w for w in self._why if w is not None), key=lambda w: self._why[w])
            share = f"{stood_in} of {self._why.total()} decisions of {self.name}"
            output.warn(f"{table.about.trace}: {share} came from its fall-back, since {why}")


def _check_features(paths: Sequence[Path], tables: Sequence[EpisodeTable]) -> None:
    """Raises InputError for a table with other features. A model without an observation would be
    judged by its fall-back."""
    for path, table in zip(paths, tables, strict=True):
        if table.about.features_fingerprint != spec.FINGERPRINT:
            raise InputError(
                f"{path} was made with other features than this program's: make it again with "
                "`mirage episodes`"
            )


def _warn_if_trained_on(
    policies: Iterable[Policy],
    paths: Sequence[Path],
    tables: Sequence[EpisodeTable],
    output: StudyOutput,
) -> None:
    """Warn of tables with weeks that a model was trained on. Its figures there are too good."""
    for path, table in zip(paths, tables, strict=True):
        for one in policies:
            if isinstance(one, ModelPolicy) and _has_learned_from(one, table):
                output.warn(
                    f"{one.name} was trained on weeks of {path}, or later: its figures are too good"
                )
            if isinstance(one, AutoPolicy):
                for name in (c.name for c in one.candidates if _has_learned_from(c, table)):
                    output.warn(
                        f"{name} was trained on weeks of {path}, or later: auto does without it"
                    )


def has_seen(asked: ModelPolicy | Candidate, cluster: str, since: int) -> bool:
    """Return whether a model was trained on weeks of that cluster after `since`, epoch seconds."""
    scope = asked.artefact.scope if isinstance(asked, ModelPolicy) else asked.scope
    return scope is not None and scope.was_trained_after(cluster, since)


def _has_learned_from(asked: ModelPolicy | Candidate, table: EpisodeTable) -> bool:
    return has_seen(asked, str(table.about.cluster.get("name", "")), table.about.since)
