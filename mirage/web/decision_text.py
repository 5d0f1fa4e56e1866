"""Decisions in plain words: what Mirage does, did, or would do."""

from mirage.domain.chain import Link, Position
from mirage.domain.decision import Action, Mode
from mirage.store.chains.decisions import DecisionRow, Effect

_WOULD = {
    Action.WAIT: "would leave it where it stands",
    Action.FREE: "would make it eligible now",
    Action.PIN: "would pin it to its predecessor's nodes",
    Action.HOLD: "would put it back behind its predecessor",
    Action.PLAN: "would have Slurm release it later",
    Action.SUBMIT: "would submit it now",
}
_DOES = {
    Action.WAIT: "leaves it where it stands",
    Action.FREE: "makes it eligible",
    Action.PIN: "pins it to its predecessor's nodes",
    Action.HOLD: "puts it back behind its predecessor",
    Action.PLAN: "has Slurm release it later",
    Action.SUBMIT: "submits it",
}
_DID = {
    Action.WAIT: "left it where it stood",
    Action.FREE: "made it eligible",
    Action.PIN: "pinned it to its predecessor's nodes",
    Action.HOLD: "put it back behind its predecessor",
    Action.PLAN: "had Slurm release it later",
    Action.SUBMIT: "submitted it",
}
_STANDS = {
    Position.HELD: "waits behind its predecessor",
    Position.PINNED: "is eligible on its predecessor's nodes",
    Position.FREE: "is eligible anywhere",
}


def describe_decision(decision: DecisionRow) -> str:
    """After the name of who decided."""
    if decision.mode is not Mode.ACT:
        return _WOULD[decision.action]
    match decision.effect:
        case Effect.DONE:
            return _DID[decision.action]
        case Effect.REFUSED:
            return f"asked Slurm to move it ({decision.action}), and Slurm refused"
        case Effect.FAILED:
            return f"asked Slurm to move it ({decision.action}), and Slurm did not answer"
    return _DOES[decision.action]


def describe_position(standby: Link) -> str:
    return _STANDS[standby.position]


def get_planned_release(standby: Link) -> int | None:
    """Return when Slurm itself releases a held standby.

    Returns None if Slurm releases it when its predecessor ends.
    """
    return standby.planned_release if standby.position is Position.HELD else None
