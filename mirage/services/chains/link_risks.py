"""Names what puts a pending link at risk, and what its owner can do about it.

The risks are Slurm's hindrances and Mirage's own. A chain is at risk if its next link may start
late for a reason that has nothing to do with the queue. Such hand-overs are no policy's fault
(`Link.hindered`).
"""

from collections.abc import Sequence

from mirage.domain.chain import Link, LinkState
from mirage.domain.chain_cause import Cause, ChainRisk, Reason, Risk, build_mirage_cause
from mirage.slurm.text.pending_reasons import Cure, Hindrance, find_hindrance_by_word

_ADVICE: dict[str, str] = {
    Risk.NO_STANDBY: "The link tries again for as long as it runs; the log in its chain's "
    "directory has sbatch's words. Where a submit limit (MaxSubmitJobs) is reached, cancel jobs "
    "that are not needed.",
    Risk.VANISHED: "The running link puts another one in place, once, when it ends. Was it "
    "cancelled on purpose? `mirage chain cancel` ends the chain.",
    Risk.REFUSED: "It is tried again. Where a submit limit (MaxSubmitJobs) is reached, cancel jobs "
    "that are not needed.",
    Risk.UNKNOWN: "Neither the queue nor accounting has its job: ask the admins whether slurmctld "
    "lost jobs.",
}
HOLDS = frozenset({"JobHeldAdmin", "JobHeldUser"})


def get_advice(word: str) -> str:
    """A sentence on what to do; `word`: `ChainRisk.word`. Empty for what is not known."""
    if word in _ADVICE:
        return _ADVICE[word]
    found = find_hindrance_by_word(word)
    return "" if found is None else found.advice


def find_waiting_risk(standby: Link, links: Sequence[Link]) -> ChainRisk | Cause | None:
    """Return what a pending link waits for; None for an ordinary wait.

    A limit that the link's own predecessor takes up is a cause and no risk: overlap is impossible
    then, and the standby starts when the predecessor ends.
    """
    found = _find_hindrance(standby)
    if found is None:
        return None
    index, job_id = standby.index, standby.job_id
    beside = any(li.state is LinkState.RUNNING and li.index < index for li in links)
    if found.cure is Cure.JOBS and beside:
        return build_mirage_cause(Reason.OWN_LIMIT, index, job_id, found.word)
    return ChainRisk(of=Risk.HINDERED, link=index, job_id=job_id, detail=found.word)


def _find_hindrance(standby: Link) -> Hindrance | None:
    """Return what still hinders the standby, as two looks have shown; None if nothing does."""
    hindered = standby.hindered and standby.hindered == standby.reason
    return find_hindrance_by_word(standby.hindered) if hindered else None
