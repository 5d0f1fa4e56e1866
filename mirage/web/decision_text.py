"""Says in plain words what Mirage does, did, or would do."""

from collections.abc import Mapping
from typing import Any, Protocol

from mirage.database.chains.decisions import Effect
from mirage.domain.chain import Link, Position
from mirage.domain.decision import Action, Mode
from mirage.slurm.text.holds import is_held
from mirage.web.formatting import format_day

_WOULD = {
    Action.WAIT: "would change nothing",
    Action.FREE: "would make the next link eligible now",
    Action.PIN: "would make the next link eligible on the running link's nodes alone",
    Action.HOLD: "would make the next link wait for the running link again",
    Action.PLAN: "would have Slurm release the next link later",
    Action.SUBMIT: "would submit the next link now",
}
_DOES = {
    Action.WAIT: "changes nothing",
    Action.FREE: "makes the next link eligible",
    Action.PIN: "makes the next link eligible on the running link's nodes alone",
    Action.HOLD: "makes the next link wait for the running link again",
    Action.PLAN: "has Slurm release the next link later",
    Action.SUBMIT: "submits the next link",
}
_DID = {
    Action.WAIT: "changed nothing",
    Action.FREE: "made the next link eligible",
    Action.PIN: "made the next link eligible on the running link's nodes alone",
    Action.HOLD: "made the next link wait for the running link again",
    Action.PLAN: "had Slurm release the next link later",
    Action.SUBMIT: "submitted the next link",
}
_STANDS = {
    Position.HELD: "waits for the link before it to end",
    Position.PINNED: "is eligible on the nodes of the link before it",
    Position.FREE: "is eligible on all nodes",
}


class DescribedDecision(Protocol):
    """What the sentence about a decision is made from: of a stored row, or of an answer."""

    @property
    def mode(self) -> Mode: ...
    @property
    def action(self) -> Action: ...
    @property
    def effect(self) -> Effect: ...
    @property
    def inputs(self) -> Mapping[str, Any]: ...


def describe_decision(decision: DescribedDecision) -> str:
    """Return what the policy decided, as the words that follow the policy's name."""
    at = decision.inputs.get("planned_release")
    if decision.action is Action.WAIT and at is not None:
        does = "leaves" if decision.mode is Mode.ACT else "would leave"
        return f"{does} the planned release: Slurm makes the next link eligible {format_day(at)}"
    if decision.mode is not Mode.ACT:
        return _WOULD[decision.action]
    attempt = f"asked Slurm to change the next link ({decision.action})"
    results = {
        Effect.DONE: _DID[decision.action],
        Effect.REFUSED: f"{attempt}, and Slurm refused",
        Effect.FAILED: f"{attempt}, and Slurm did not answer",
        Effect.GIVEN_UP: "left the next link as it is: the job had changed since Mirage's look at "
        "the queue",
    }
    return results.get(decision.effect, _DOES[decision.action])


def describe_position(standby: Link) -> str:
    """Return where the standby stands, as the words that follow its name."""
    if is_held(standby.reason, None):
        return f"is held in Slurm ({standby.reason})"
    return _STANDS[standby.position]
