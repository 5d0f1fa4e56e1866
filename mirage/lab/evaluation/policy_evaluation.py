"""Judges policies on episode tables, for `mirage evaluate`, `mirage report shadow`, and the card of
a trained model."""

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
from mirage.lab.blocks.block_executor import BlockExecutor
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
"""The name under which a switch chain is judged, by the rule `quantile` at its default price."""
MOST_RETURNS = 2
"""How often a link may give its nodes back by default. Chains have the same default
(`mirage_slurm/wrapper/settings.py`)."""
ORACLE = "oracle"
"""The name of the best choice in hindsight. It is no policy."""
NO_POLICIES = (OWN_PLAN, SWITCH, ORACLE)
"""Names that can be judged, although the service has no such policy."""


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
    executor: BlockExecutor | None = None
    """Who asks the twin where a table lacks its answers. None: a process for each core."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The hand-overs of each table as each policy played them, and the choices of `auto`."""

    tables: Sequence[EpisodeTable]
    startup_h: float
    played_handovers: dict[str, list[PlayedHandovers]]
    auto_choices: AutoChoiceCounter
    most_returns: int = 0

    def collect_handovers(
        self, name: str, table_indices: Sequence[int] | None = None
    ) -> HandoverOutcomes:
        """Return the outcomes of one policy over all tables, or over those at `table_indices`."""
        indices = range(len(self.tables)) if table_indices is None else table_indices
        parts = (
            HandoverOutcomes.from_choices(
                self.tables[index],
                self.played_handovers[name][index].release_instants,
                self.startup_h,
                self.played_handovers[name][index].returns if self.most_returns else None,
            )
            for index in indices
        )
        return HandoverOutcomes.join_outcomes(parts)

    def compute_reactive_h(self, table_indices: Sequence[int] | None = None) -> Floats:
        """Return the reactive interruption [E] in hours, which decides the load class.

        It does not include the startup time.
        """
        indices = range(len(self.tables)) if table_indices is None else table_indices
        tables = [self.tables[index] for index in indices]
        instants = [policy_runner.choose_reactive(table) for table in tables]
        return join_handovers(tables, instants, 0.0).interruption_h


def load_judged_table(path: Path, output: StudyOutput) -> EpisodeTable:
    """Load a table to judge policies on. Raises InputError for one without an episode."""
    table = EpisodeTable.load(path)
    if not len(table):
        raise InputError(f"{path} holds no episode")
    warn_if_beyond_trace(path, table, output)
    return table


def run_evaluation(request: EvaluationRequest, output: StudyOutput) -> Evaluation:
    """Play each named policy over the tables, also the oracle and the links' own plans if named.

    Raises InputError if two tables share a hand-over, or if a policy cannot be judged on a table.
    """
    paths, tables, names = request.paths, request.tables, request.names
    policies = {name: get_policy(name, request.models) for name in names if name not in NO_POLICIES}
    check_distinct([table.metadata for table in tables], [t.start_point for t in tables])
    if any(map(is_model, names)):
        _check_features(paths, tables)
    ask_twin_if_needed(policies.values(), paths, tables, output, request.executor)
    _warn_if_trained_on(policies.values(), paths, tables, output)
    terms = Terms(
        overlap_price=request.overlap_price, returns=request.most_returns, guarded=request.guarded
    )
    runner = PolicyRunner(tables, terms, output, request.startup_h)
    played_handovers = {name: runner.play_tables(name, policies.get(name)) for name in names}
    return Evaluation(
        tables, request.startup_h, played_handovers, runner.auto_choices, request.most_returns
    )


def join_handovers(
    tables: Sequence[EpisodeTable],
    instants: Sequence[policy_runner.ChosenInstants],
    startup_h: float,
) -> HandoverOutcomes:
    """Return the outcomes of the tables' hand-overs, in the order of the tables."""
    parts = (
        HandoverOutcomes.from_choices(table, table_instants, startup_h)
        for table, table_instants in zip(tables, instants, strict=True)
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
        self.auto_choices = AutoChoiceCounter()
        """Counts which candidates decided for `auto`."""
        self._output = output
        self._played_by_key: dict[tuple[str, int], PlayedHandovers] = {}

    def play_tables(self, name: str, policy: Policy | None) -> list[PlayedHandovers]:
        """Play the policy over each table.

        `policy` is None for the names of `NO_POLICIES`.
        """
        if name == OWN_PLAN:
            return [self._play_own_plan(table) for table in self._tables]
        if name == SWITCH:
            # The predecessor of a switch link ends for it. So no link holds idle nodes: nothing is
            # given back, and max-overlap bounds nothing.
            terms = Terms(overlap_price=self._terms.overlap_price)
            return [self._play_policy(SwitchQuantile(), t, terms) for t in self._tables]
        if policy is None:
            return [self._choose_oracle(table) for table in self._tables]
        if isinstance(policy, AutoPolicy):
            return [
                self._walk_auto(policy, table_index) for table_index in range(len(self._tables))
            ]
        return [self._play_once(policy, table_index) for table_index in range(len(self._tables))]

    def _choose_oracle(self, table: EpisodeTable) -> PlayedHandovers:
        price = self._terms.overlap_price
        instants = policy_runner.choose_oracle(table, price, self._startup_h)
        return PlayedHandovers(instants, np.zeros(len(table), dtype=np.int64))

    def _play_own_plan(self, table: EpisodeTable) -> PlayedHandovers:
        with self._output.show_progress(OWN_PLAN, len(table)) as on_step:
            rule = Quantile(last=policy_runner.OWN_SAMPLE)
            return policy_runner.play_own_plan(table, rule, self._terms, lambda _: on_step())

    def _walk_auto(self, auto: AutoPolicy, table_index: int) -> PlayedHandovers:
        table = self._tables[table_index]
        auto = replace(
            auto, candidates=tuple(c for c in auto.candidates if not _has_learned_from(c, table))
        )
        return walk_forward.play_auto(
            auto, table, lambda p: self._play_once(p, table_index), self.auto_choices
        )

    def _play_once(self, policy: Policy, table_index: int) -> PlayedHandovers:
        key = (policy.name, table_index)
        if key not in self._played_by_key:
            self._played_by_key[key] = self._play_policy(
                policy, self._tables[table_index], self._terms
            )
        return self._played_by_key[key]

    def _play_policy(self, policy: Policy, table: EpisodeTable, terms: Terms) -> PlayedHandovers:
        if policy.name == "reactive":
            instants = policy_runner.choose_reactive(table)
            return PlayedHandovers(instants, np.zeros(len(table), dtype=np.int64))
        counted_policy = _FallbackCounter(policy)
        with self._output.show_progress(policy.name, len(table)) as on_step:
            handovers = policy_runner.play_policy(table, counted_policy, terms, lambda _: on_step())
        counted_policy.warn_of_fallbacks(table, self._output)
        return handovers


class _FallbackCounter:
    """Wraps a policy, and counts the decisions in which its fall-back rule stood in for it. The
    figures of such a policy are partly those of the rule."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name, self.needs = policy, policy.name, policy.needs
        self.decide_outright, self.explain_unfit = policy.decide_outright, policy.explain_unfit
        self._reasons: Counter[str | None] = Counter()

    def decide(self, view: PolicyView) -> Decision:
        if not isinstance(self._policy, AutoPolicy):
            self._reasons[self.explain_unfit(view)] += 1
        return self._policy.decide(view)

    def warn_of_fallbacks(self, table: EpisodeTable, output: StudyOutput) -> None:
        fallback_count = sum(n for reason, n in self._reasons.items() if reason is not None)
        if fallback_count:
            reason = max(
                (w for w in self._reasons if w is not None), key=lambda w: self._reasons[w]
            )
            share = f"{fallback_count} of {self._reasons.total()} decisions of {self.name}"
            output.warn(f"{table.metadata.trace}: {share} came from its fall-back, since {reason}")


def _check_features(paths: Sequence[Path], tables: Sequence[EpisodeTable]) -> None:
    """Raise InputError for a table with other features.

    A model gets no observation from such a table, so its fall-back would be judged.
    """
    for path, table in zip(paths, tables, strict=True):
        if table.metadata.features_fingerprint != spec.FINGERPRINT:
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
    """Warn of tables whose weeks a model was trained on: its figures there are too good."""
    for path, table in zip(paths, tables, strict=True):
        for policy in policies:
            if isinstance(policy, ModelPolicy) and _has_learned_from(policy, table):
                output.warn(
                    f"{policy.name} was trained on weeks of {path}, or later: "
                    "its figures are too good"
                )
            if isinstance(policy, AutoPolicy):
                for name in (c.name for c in policy.candidates if _has_learned_from(c, table)):
                    output.warn(
                        f"{name} was trained on weeks of {path}, or later: auto does without it"
                    )


def has_learned_since(model: ModelPolicy | Candidate, cluster: str, since: int) -> bool:
    """Return whether a model was trained on weeks of that cluster after `since`, epoch seconds."""
    scope = model.artefact.scope if isinstance(model, ModelPolicy) else model.scope
    return scope is not None and scope.was_trained_after(cluster, since)


def _has_learned_from(model: ModelPolicy | Candidate, table: EpisodeTable) -> bool:
    return has_learned_since(
        model, str(table.metadata.cluster.get("name", "")), table.metadata.since
    )
