"""The policy `auto`: for each hand-over it picks the candidate that cost least on similar past
hand-overs.

Candidates are ordered: learned, forecast, quantile, reactive. The first one that can be asked
decides, unless a later one has clearly cost less on recent hand-overs at a similar load. Of several
learned ones that of the newest weeks comes first, then the cheapest by their cards; one that has
cost more than the forecast or than quantile by its own card does not decide. No
candidate is asked if the position of the standby settles the decision. docs/concepts/auto.md
describes it in full.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView, Waits
from mirage.domain.ports import Needs, Policy, SimplePolicy
from mirage.policies.models.scope import Scope
from mirage.policies.results.comparison import (
    Results,
    Weighing,
    choose_cheapest,
    compute_load_h,
    find_beaten,
    order_by_cost,
)
from mirage.policies.rules.lead_rules import Reactive
from mirage.policies.rules.pinning import PinThenFree, move_off_nodes

_PINS = PinThenFree()
_PLAIN = Reactive()


@dataclass(frozen=True, slots=True)
class Candidate:
    policy: Policy
    scope: Scope | None = None
    """A model's scope. On a cluster that a model was not trained on, it comes after the proven
    candidates."""
    proven: bool = True
    """Whether the candidate comes before models that were trained on other clusters."""

    @property
    def name(self) -> str:
        return self.policy.name

    def get_trained_until(self, cluster: str) -> int:
        """Return when a model's training on this cluster ended, epoch seconds; 0: it has none."""
        return 0 if self.scope is None else self.scope.get_trained_until(cluster)

    def rank_on_cluster(self, cluster: str) -> int:
        """Return the rank on this cluster. Candidates of lower rank come first; equal ranks keep
        the given order."""
        if self.scope is not None:
            return 0 if cluster in self.scope.clusters else 2
        return 1 if self.proven else 3


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate that decides a hand-over, and the reasons against those before it."""

    policy: Policy
    skipped: dict[str, str]
    """Candidates that cannot be asked now: name -> why."""
    dearer: tuple[str, ...] = ()
    """Candidates that come before the chosen one, and have cost more."""

    @property
    def explanation(self) -> str:
        clauses = [f"{name} cannot be asked ({why})" for name, why in self.skipped.items()]
        if self.dearer:
            clauses.append(f"{_join_words(self.dearer)} cost more lately")
        return f", since {_join_words(clauses)}" if clauses else ""


def _find_no_results(_: PolicyView) -> Results:
    return Results.create_empty()


@dataclass(frozen=True, slots=True)
class AutoPolicy(SimplePolicy):
    """Picks a candidate for each hand-over. The last candidate must be one that can always be
    asked."""

    candidates: tuple[Candidate, ...]
    results: Callable[[PolicyView], Results] = _find_no_results
    """Returns the results of hand-overs like the view's, including ones that have not ended;
    only ended ones are used. The default returns none. The service passes its own hand-overs
    here, an evaluation passes its table's."""
    weighing: Weighing = field(default_factory=Weighing)
    on_choice: Callable[[Choice], None] = lambda _: None
    """Called with each choice."""
    name: str = "auto"

    @property
    def needs(self) -> Needs:
        """Return everything that any of the candidates needs."""
        needs = [c.policy.needs for c in self.candidates]
        return Needs(
            observation=any(n.observation for n in needs),
            window=any(n.window for n in needs),
            twin=any(n.twin for n in needs),
        )

    def decide_outright(self, view: PolicyView) -> Decision | None:
        """Decide at once if the standby may be pinned or earns age anyway; else None.

        docs/concepts/positions.md has the evidence. Tables know neither case, so over them
        candidates decide.
        """
        if view.accrues_always and (view.position is Position.HELD or not view.can_pin):
            reason = ", since a held standby earns age too (ACCRUE_ALWAYS)"
            return self._decide_with(_PLAIN, view, reason)
        if view.can_pin:
            return self._decide_with(_PINS, view, ", since the standby may be pinned")
        return None

    def decide(self, view: PolicyView) -> Decision:
        decision = self.decide_outright(view)
        if decision is not None:
            return decision
        choice = self.choose_candidate(view)
        self.on_choice(choice)
        return self._decide_with(choice.policy, view, choice.explanation)

    def _decide_with(self, policy: Policy, view: PolicyView, explanation: str) -> Decision:
        decision = policy.decide(view)
        # Policies that do not pin cannot move a pinned standby off its nodes.
        must_leave = view.position is Position.PINNED and not view.can_pin
        if must_leave and decision.action is Action.WAIT:
            decision = replace(move_off_nodes(policy.name), forecast=decision.forecast)
        reason = f"{policy.name} decides{explanation}: {decision.reason}"
        return replace(decision, policy=self.name, reason=reason)

    def choose_candidate(self, view: PolicyView) -> Choice:
        """Choose the candidate by what was known at the predecessor's start.

        So the choice stays the same for the whole hand-over. If it were made anew at each instant,
        every candidate that is chosen for a moment could free the successor.
        """
        faults = {c.name: c.policy.explain_unfit(view) for c in self.candidates}
        began_at = view.predecessor_start
        if began_at is None:
            began_at = view.predecessor_end - view.time_limit_s
        results = self.results(view).select_known(min(began_at, view.now))
        load = compute_load_h(
            _select_started_before(view.jobs, began_at), view.nodes, view.time_limit_s
        )
        weights = self.weighing.compute_weights(results, began_at, load)
        order = self._order_candidates(view, results)
        fit_candidates = [c for c in order if faults[c.name] is None]
        beaten = self._find_beaten(view, fit_candidates, results)
        names = [c.name for c in fit_candidates if c.name not in beaten]
        name, dearer = choose_cheapest(names, results, weights, view.overlap_price, self.weighing)
        earlier = order[: [c.name for c in order].index(name)]
        return Choice(
            policy=order[len(earlier)].policy,
            skipped={c.name: fault for c in earlier if (fault := faults[c.name]) is not None},
            dearer=(*(c.name for c in earlier if c.name in beaten), *dearer),
        )

    def _order_candidates(self, view: PolicyView, results: Results) -> list[Candidate]:
        """Order the candidates by rank.

        Of the models of this cluster, those that learned from the newest weeks come first. Of
        models of the same weeks the cheapest by their results comes first.
        """
        ranked = sorted(self.candidates, key=lambda c: c.rank_on_cluster(view.cluster))
        learned = [c for c in ranked if c.rank_on_cluster(view.cluster) == 0]
        learned.sort(key=lambda c: -c.get_trained_until(view.cluster))
        by_weeks = groupby(learned, key=lambda c: c.get_trained_until(view.cluster))
        ordered = (self._order_by_cost(tuple(group), view, results) for _, group in by_weeks)
        return [*chain.from_iterable(ordered), *ranked[len(learned) :]]

    def _order_by_cost(
        self, candidates: Sequence[Candidate], view: PolicyView, results: Results
    ) -> list[Candidate]:
        names = [c.name for c in candidates]
        ordered = order_by_cost(names, results, view.overlap_price, self.weighing.fewest_days)
        return [candidates[names.index(name)] for name in ordered]

    def _find_beaten(
        self, view: PolicyView, fit: Sequence[Candidate], results: Results
    ) -> frozenset[str]:
        """Find the models that have cost more than a proven candidate that can decide instead."""
        models = [c.name for c in fit if c.scope is not None]
        rivals = [c.name for c in fit if c.scope is None and c.rank_on_cluster(view.cluster) == 1]
        return find_beaten(models, rivals, results, view.overlap_price, self.weighing.fewest_days)


def _select_started_before(jobs: Waits, at: int) -> Waits:
    """Return the jobs that had started by `at`; all jobs if no job had, or all had."""
    has_started = jobs.start <= at
    if has_started.all() or not has_started.any():
        return jobs
    return Waits(
        start=jobs.start[has_started],
        wait_s=jobs.wait_s[has_started],
        nodes=jobs.nodes[has_started],
        time_limit_s=jobs.time_limit_s[has_started],
    )


def _join_words(words: Sequence[str]) -> str:
    return " and ".join(words)
