"""Names what puts a pending link at risk, and what its owner can do about it.

A chain is at risk if its next link may start late for a reason that has nothing to do with the
queue. Slurm gives some of these reasons, and Mirage adds its own. No policy is judged by such a
hand-over (`Link.hindered`).
"""

from collections.abc import Sequence

from mirage.domain.chain import Link, LinkState
from mirage.domain.chain_cause import Cause, ChainRisk, Reason, Risk, build_mirage_cause
from mirage.slurm.text.pending_reasons import Cure, Hindrance, find_hindrance_by_word

_ADVICE: dict[str, str] = {
    Risk.NO_STANDBY: "The running link tries to submit the next one for as long as it runs. The "
    "log in the chain's directory has sbatch's error. If a submit limit (MaxSubmitJobs) is "
    "reached, cancel jobs that you do not need.",
    Risk.VANISHED: "The running link submits another next link, once, when it ends. If you "
    "cancelled the job on purpose, `mirage chain cancel` ends the chain.",
    Risk.REFUSED: "Mirage tries again. If a submit limit (MaxSubmitJobs) is reached, cancel jobs "
    "that you do not need.",
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
    found = find_hindrance_by_word(word)
    return "" if found is None else found.advice


def find_waiting_risk(standby: Link, links: Sequence[Link]) -> ChainRisk | Cause | None:
    """Return what a pending link waits for; None for an ordinary wait.

    If the link waits for a limit that its own predecessor takes up, the result is a cause and no
    risk: the two cannot overlap, and the standby starts when the predecessor ends.
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
    """Return what hinders the standby if two looks in a row have shown it; else None."""
    hindered = standby.hindered and standby.hindered == standby.reason
    return find_hindrance_by_word(standby.hindered) if hindered else None
