"""The nights of a demo that learns: `mirage learn` looks at the demo's site each simulated night,
as mirage-learn.timer lets it look at a real one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.database.learning import challenges
from mirage.database.learning.challenges import Challenge, ChallengeState
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.lab.blocks.local_processes import LocalProcesses
from mirage.lab.demo.comparison_plan import ComparisonPlan
from mirage.lab.demo.demo_site import DemoSite
from mirage.lab.demo.policy_comparison import (
    PolicyOutcome,
    compute_mean_outcomes,
    list_completed_handovers,
)
from mirage.lab.learning.learn_request import LearnRequest
from mirage.lab.learning.nightly_look import run_learning
from mirage.lab.learning.run_budget import Budget
from mirage.lab.learning.run_folder import RunFolder
from mirage.lab.study_output import StudyOutput
from mirage.lab.tables.table_plan import count_cores
from mirage.lab.training.trainers import FamilyName
from mirage.provision.learning.model_promoter import Decider, ModelPromoter, explain_state
from mirage.reports import learning_status

FAMILIES = (FamilyName.XGBOOST,)
"""One kind of model, for the sake of the demo's time."""
_USED_S = 7 * DAY_S
"""The demo ends when a model has been in use for so long."""
_ADMIN = "admin of the demo"

Outcomes = Mapping[str, PolicyOutcome]


@dataclass(frozen=True, slots=True)
class Night:
    """What came of the look of one night."""

    now: int
    document: Mapping[str, Any]
    """The document of `mirage learn`."""
    proposed: str | None = None
    """The model that waits for an admin since this night."""
    promoted: str | None = None
    """The model that is in use since this night."""


@dataclass(slots=True)
class LearningNights:
    """The weeks of a demo that learns."""

    site: DemoSite
    plan: ComparisonPlan
    output: StudyOutput
    says_yes: bool
    """Whether the demo's admin promotes what is proposed; else it waits until the end."""
    turned_at: int | None = None
    """When the first model came in use; until then, when the first verdict was reached."""
    _used_since: int | None = None
    _proposed: str | None = None

    def watch(self) -> Iterator[int | Night]:
        """Run the chains and the nights. Yields the simulated time once per hour, and each night.

        Raises InputError for what `mirage learn` refuses, such as packages that are missing.
        """
        next_night = self.site.world.read_clock() + DAY_S
        for progress in self.site.compare_policies(self.plan):
            yield progress.now
            if progress.now >= next_night:
                next_night += DAY_S
                yield self._learn_tonight(progress.now)
            if self._used_since is not None and progress.now >= self._used_since + _USED_S:
                return

    def _learn_tonight(self, now: int) -> Night:
        document = run_learning(self._build_request(now), self.output)
        promoter = self._build_promoter()
        proposed = self._find_proposed()
        if proposed is not None and self.says_yes:
            promoter.promote_challenger(proposed, decider=Decider(actor=_ADMIN), now=now)
        champion = promoter.find_champion()
        if self.turned_at is None and "trained_at" in document:
            self.turned_at = now
        promoted = champion if self._used_since is None else None
        if promoted is not None:
            self.turned_at = self._used_since = now
        is_new = proposed is not None and proposed != self._proposed
        self._proposed = proposed
        return Night(now, document, proposed if is_new else None, promoted)

    def compute_before(self) -> Outcomes:
        """Compute the means by policy of the hand-overs until the turn."""
        return self._compute_outcomes(0, self.turned_at or self.site.world.read_clock())

    def compute_after(self) -> Outcomes:
        """Compute the means by policy of the hand-overs after the turn; empty if there was none."""
        until = self.site.world.read_clock()
        return self._compute_outcomes(self.turned_at or until, until)

    def explain_end(self, nights: Sequence[Night]) -> str:
        """Return what is in use, else what became of the newest challenger, else why there was
        none, in a sentence."""
        all_challenges = self._read_challenges()
        in_use = [one for one in all_challenges if one.state is ChallengeState.PROMOTED]
        newest = next(iter((*in_use, *all_challenges)), None)
        if newest is None:
            learned = [night for night in nights if night.document["state"] == "done"]
            last = (learned or nights)[-1:]
            return str(last[0].document["sentence"]) if last else "No night has passed."
        if newest.state is ChallengeState.SHADOW:
            return f"{newest.model} still decides in shadow: it was not judged to the end."
        return explain_state(newest.model, newest.state, str(newest.evidence.get("why", "")))

    def _compute_outcomes(self, since: int, until: int) -> Outcomes:
        rows = list_completed_handovers(self.site.service)
        handovers = [row for row in rows if since <= (row.predecessor.end or 0) < until]
        return compute_mean_outcomes(handovers, OVERLAP_PRICE)

    def _find_proposed(self) -> str | None:
        newest = next(iter(self._read_challenges()), None)
        if newest is None or newest.state is not ChallengeState.PROPOSED:
            return None
        return newest.model

    def _read_challenges(self) -> list[Challenge]:
        service = self.site.service
        with service.store.read() as tx:
            return challenges.read_challenges(tx, service.cluster_id, most=learning_status.RECENT)

    def _build_request(self, now: int) -> LearnRequest:
        settings, params = self.site.service.settings, self.site.world.params
        rules = settings.learn
        return LearnRequest(
            cluster=settings.cluster.name,
            params=params,
            store=self.site.service.store,
            folder=RunFolder(settings.service.state_dir / "learn"),
            models=settings.models_dir,
            rules=rules,
            budget=Budget(
                wall_s=rules.budget_h * HOUR_S,
                memory_gib=rules.memory_gib,
                processes=count_cores(),
            ),
            executor=LocalProcesses(count_cores()),
            now=now,
            families=FAMILIES,
        )

    def _build_promoter(self) -> ModelPromoter:
        service = self.site.service
        return ModelPromoter(
            store=service.store,
            cluster_id=service.cluster_id,
            cluster=service.settings.cluster.name,
            models_dir=service.settings.models_dir,
        )
