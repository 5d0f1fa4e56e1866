"""A trained model as a policy."""

from dataclasses import dataclass, replace

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import Needs, SimplePolicy
from mirage.policies.models.artefact import Artefact
from mirage.policies.models.unavailable_model import decide_without_model


@dataclass(frozen=True, slots=True)
class ModelPolicy(SimplePolicy):
    """A policy that a model decides. The twin or a rule decides if the model cannot be asked.

    The twin decides first; a rule decides if the twin was not asked either. The reason of the
    decision says why.
    """

    artefact: Artefact
    name: str

    @property
    def needs(self) -> Needs:
        """Return the needs of the model: a window for an agent that was trained with one, the
        twin for a model that was trained with it."""
        return Needs(
            observation=True,
            window=self.artefact.model.window > 0,
            twin=self.artefact.card.get("twin") is not None,
        )

    def decide(self, view: PolicyView) -> Decision:
        obstacle = self.explain_unfit(view)
        if obstacle is not None:
            return decide_without_model(view, self.name, obstacle)
        decision = self.artefact.model.decide_handover(self._clamp_view(view), self.name)
        if isinstance(decision, str):
            return decide_without_model(view, self.name, decision)
        return decision

    def explain_unfit(self, view: PolicyView) -> str | None:
        obstacle = self.artefact.scope.explain_outside(view.nodes, view.time_limit_s)
        if obstacle is not None:
            return obstacle
        if view.observation is None:
            return view.why_unobserved
        if self.needs.twin and view.twin_s is None:
            return view.why_no_twin
        least, greatest = self.artefact.model.prices
        if not least <= view.overlap_price <= greatest:
            return (
                f"the overlap price {view.overlap_price:g} lies outside the model's training range "
                f"of {least:g} to {greatest:g}"
            )
        return self.artefact.training_range.explain_out_of_range(view.observation)

    def _clamp_view(self, view: PolicyView) -> PolicyView:
        clamp = self.artefact.training_range.clamp_to_learned
        observation, window = view.observation, view.window
        return replace(
            view,
            observation=None if observation is None else clamp(observation),
            window=None if window is None else clamp(window),
        )
