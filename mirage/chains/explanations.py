"""Explains in words why a chain is in its state.

The sentences are made when somebody reads them. They are not stored, and no code depends on them.
"""

from collections.abc import Callable, Mapping

from mirage.chains.chain_state import BLINKS, FAST_FAILURES, get_fail_fast_s
from mirage.domain.chain import Chain, ChainState
from mirage.domain.chain_cause import Actor, Cause, ChainRisk, Reason, Risk
from mirage.slurm.text.pending_reasons import find_hindrance_by_word

_REQUEST_WORDS = {
    ChainState.PAUSED: "paused",
    ChainState.ACTIVE: "resumed",
    ChainState.CANCELLED: "cancelled",
}


def describe_chain(chain: Chain) -> str:
    """Return what the chain is at risk of, else why it is in its state, as lists show it."""
    return f"at risk: {explain_risk(chain.at_risk)}" if chain.at_risk else explain_cause(chain)


def explain_cause(chain: Chain) -> str:
    """Return why the chain is in its state; empty if there is nothing to explain."""
    cause = chain.cause
    if cause is None:
        return ""
    sentence = _SENTENCES[cause.reason](chain, cause)
    is_paused = chain.state is ChainState.PAUSED and cause.actor is Actor.MIRAGE
    return f"paused: {sentence}{_suggest_next_step(chain, cause)}" if is_paused else sentence


def explain_risk(at_risk: ChainRisk) -> str:
    """Return what a chain is at risk of, in words."""
    return _RISKS[at_risk.of](at_risk)


def _suggest_next_step(chain: Chain, cause: Cause) -> str:
    match cause.reason:
        case Reason.FAILED_FAST | Reason.BRIEF:
            return f"; mend the cause, then run `mirage chain resume {chain.chain_id}`"
        case Reason.TURNED_AWAY:
            return f"; mend the cause, then run `mirage-link resume {chain.chain_id}`"
        case _:
            return ""


def _describe_gone(of: ChainRisk | Cause) -> str:
    return f"the standby for link {of.link} (job {of.job_id}) is gone: {of.detail}"


def _describe_wait(of: ChainRisk | Cause) -> str:
    hindrance = find_hindrance_by_word(of.detail)
    sentence = of.detail if hindrance is None else hindrance.says
    return f"link {of.link} (job {of.job_id}) waits: {sentence}"


def _describe_late(of: ChainRisk) -> str:
    job = f" (job {of.job_id})" if of.job_id else ""
    return f"link {of.link}{job} will start after the end of the link before it, by its forecast"


def _describe_turn(of: Cause) -> str:
    index, job_id = of.detail.split()
    return f"link {of.link} (job {of.job_id}) waits for link {index} (job {job_id})"


def _format_span(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} minutes"


_RISKS: Mapping[Risk, Callable[[ChainRisk], str]] = {
    Risk.NO_STANDBY: lambda risk: f"the link after link {risk.link} is not in the queue",
    Risk.VANISHED: _describe_gone,
    Risk.UNKNOWN: lambda risk: f"Slurm no longer shows link {risk.link}",
    Risk.REFUSED: lambda risk: f"Slurm refuses link {risk.link}: {risk.detail}",
    Risk.MOVE_REFUSED: lambda risk: (
        f"Slurm did not move link {risk.link} (job {risk.job_id}): {risk.detail}"
    ),
    Risk.LATE: _describe_late,
    Risk.HINDERED: _describe_wait,
}

_SENTENCES: Mapping[Reason, Callable[[Chain, Cause], str]] = {
    Reason.ASKED: lambda chain, of: f"{_REQUEST_WORDS.get(chain.state, chain.state)} by {of.by}",
    Reason.NEVER_SEEN: lambda *_: "Slurm has never shown a job of this chain",
    Reason.NEVER_STARTED: lambda *_: "cancelled before it started",
    Reason.LINK_CANCELLED: lambda _, of: f"link {of.link} was cancelled",
    Reason.ALL_LINKS_RAN: lambda _, of: f"all {of.link} links ran",
    Reason.TOTAL_RAN: lambda _, of: f"its links ran for {int(of.detail) / 3600:.1f} h in total",
    Reason.LINK_ENDED: lambda _, of: f"ended with link {of.link}, {of.detail}",
    Reason.FAILED_FAST: lambda chain, _: (
        f"{FAST_FAILURES} links in a row failed within {_format_span(get_fail_fast_s(chain))}"
    ),
    Reason.BRIEF: lambda *_: f"{BLINKS} links in a row ran for less than a minute",
    Reason.TURNED_AWAY: lambda *_: "its last links ended soon after their start",
    Reason.STANDBY_GONE: lambda _, of: f"{_describe_gone(of)}, as was the one before it",
    Reason.OWN_LIMIT: lambda _, of: f"{_describe_wait(of)}; it cannot start beside its predecessor",
    Reason.WAITS_FOR: lambda _, of: _describe_turn(of),
    Reason.UNRECORDED: lambda _, of: of.detail,
}
