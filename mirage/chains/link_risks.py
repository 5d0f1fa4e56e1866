"""Names what puts a pending link at risk, and what its owner can do about it.

A chain is at risk if its next link may start late. Slurm gives some of the reasons, and Mirage adds
its own. No policy is judged by a hand-over that something else than the queue hindered
(`Link.hindered`); a link that is late by its forecast alone is not hindered.
"""

from collections.abc import Iterable, Mapping, Sequence

from mirage.chains.open_handovers import OpenHandover
from mirage.chains.start_range import StartRange, read_start_ranges
from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow, Effect
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey
from mirage.domain.chain import ChainId, Link, LinkState, Position
from mirage.domain.chain_cause import Cause, ChainRisk, Reason, Risk, build_mirage_cause
from mirage.slurm.text.pending_reasons import Cure, Hindrance, find_hindrance_by_word

_ADVICE: dict[str, str] = {
    Risk.NO_STANDBY: "The running link tries to submit the next one for as long as it runs. The "
    "log in the chain's directory has sbatch's error. If a submit limit (MaxSubmitJobs) is "
    "reached, cancel jobs that you do not need.",
    Risk.VANISHED: "The running link submits another next link, once, when it ends. If you "
    "cancelled the job on purpose, `mirage chain cancel` ends the chain.",
    Risk.MOVE_REFUSED: "The link starts when the one before it has ended, as under plain Slurm. "
    "Mirage tries again. If Slurm denies permission, ask the admins to run `mirage doctor`.",
    Risk.LATE: "Nothing is wrong with the chain: the queue is long, or Mirage may not release the "
    "link early (mode, max-overlap, budget; `mirage chain explain` says which). Fewer nodes or a "
    "shorter time limit start sooner.",
    Risk.UNKNOWN: "Neither the queue nor accounting has the link's job. Ask the admins whether "
    "slurmctld lost jobs.",
}
HOLDS = frozenset({"JobHeldAdmin", "JobHeldUser"})


def get_advice(word: str) -> str:
    """Return what to do about a risk, in sentences; empty for an unknown word.

    `word` is a `ChainRisk.word`.
    """
    if word in _ADVICE:
        return _ADVICE[word]
    hindrance = find_hindrance_by_word(word)
    return "" if hindrance is None else hindrance.advice


def find_waiting_risk(standby: Link, links: Sequence[Link]) -> ChainRisk | Cause | None:
    """Return what a pending link waits for; None for an ordinary wait.

    If the link waits for a limit that its own predecessor takes up, the result is a cause and no
    risk: the two cannot overlap, and the standby starts when the predecessor ends.
    """
    hindrance = _find_hindrance(standby)
    if hindrance is None:
        return None
    index, job_id = standby.index, standby.job_id
    earlier_runs = any(li.state is LinkState.RUNNING and li.index < index for li in links)
    if hindrance.cure is Cure.JOBS and earlier_runs:
        return build_mirage_cause(Reason.OWN_LIMIT, index, job_id, hindrance.word)
    return ChainRisk(of=Risk.HINDERED, link=index, job_id=job_id, detail=hindrance.word)


def foresee_risks(
    tx: Transaction, cluster_id: int, handovers: Iterable[OpenHandover]
) -> Mapping[ChainId, ChainRisk]:
    """Return the risk of each chain that Mirage's own moves and forecasts show.

    A refused move comes before a late link, and a chain's next hand-over before later ones.
    """
    open_handovers = list(handovers)
    moves = decisions.find_settled_moves(tx, cluster_id, [_get_key(h) for h in open_handovers])
    starts = read_start_ranges(tx, cluster_id, [h.standby for h in open_handovers])
    risks: dict[ChainId, ChainRisk] = {}
    for handover in open_handovers:
        key = _get_key(handover)
        risk = _find_refused_move(handover, moves.get(key))
        risk = risk or _find_late_start(handover, starts.get(key))
        if risk is not None:
            risks.setdefault(handover.chain.chain_id, risk)
    return risks


def _get_key(handover: OpenHandover) -> LinkKey:
    return handover.chain.chain_id, handover.standby.index


def _find_refused_move(handover: OpenHandover, move: DecisionRow | None) -> ChainRisk | None:
    """Return the risk of a link that Slurm did not move and that waits where it was.

    `move`: the link's newest move whose result is known. A link that is still to be submitted is
    judged by its submission (Risk.REFUSED).
    """
    standby = handover.standby
    if move is None or move.effect is Effect.DONE or handover.submits:
        return None
    is_outdated = move.inputs.get("standby") != standby.job_id or standby.position is Position.FREE
    if is_outdated or handover.predecessor.state is LinkState.ENDED:
        return None
    detail = move.error or "it gave no answer"
    return ChainRisk(of=Risk.MOVE_REFUSED, link=standby.index, job_id=standby.job_id, detail=detail)


def _find_late_start(handover: OpenHandover, start: StartRange | None) -> ChainRisk | None:
    """Return the risk of a link that starts late by its forecast.

    The risk begins if even p10 of the start is late, and ends once the median is in time. With one
    bound for both, a forecast near the bound would cause a notice at each tick.
    """
    predecessor, standby = handover.predecessor, handover.standby
    end = predecessor.end if predecessor.end is not None else predecessor.get_planned_end()
    if end is None or start is None:
        return None
    before = handover.chain.at_risk
    was_late = before is not None and (before.of, before.link) == (Risk.LATE, standby.index)
    if (start.p50 if was_late else start.p10) <= end:
        return None
    return ChainRisk(of=Risk.LATE, link=standby.index, job_id=standby.job_id or None)


def _find_hindrance(standby: Link) -> Hindrance | None:
    """Return what hinders the standby if two looks in a row have shown it; else None."""
    is_hindered = standby.hindered and standby.hindered == standby.reason
    return find_hindrance_by_word(standby.hindered) if is_hindered else None
