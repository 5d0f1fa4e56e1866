"""What a chain may be at risk of, and what its owner can do: Slurm's hindrances, and Mirage's own.

A chain is at risk where its next link may start late for a reason that has nothing to do with the
queue. Such hand-overs are no policy's fault (`Link.hindered`).
"""

from collections.abc import Sequence

from mirage.domain.chain import Link, LinkState
from mirage.slurm.reasons import Cure, Hindrance, named

NO_STANDBY = "NoStandby"
VANISHED = "StandbyVanished"
UNKNOWN = "LinkUnknown"
REFUSED = "SubmitRefused"

_ADVICE = {
    NO_STANDBY: "The link tries again for as long as it runs; the log in its chain's directory has "
    "sbatch's words. Where a submit limit (MaxSubmitJobs) is reached, cancel jobs that are not "
    "needed.",
    VANISHED: "The running link puts another one in place, once, when it ends. Was it cancelled on "
    "purpose? `mirage chain cancel` ends the chain.",
    REFUSED: "It is tried again. Where a submit limit (MaxSubmitJobs) is reached, cancel jobs that "
    "are not needed.",
    UNKNOWN: "Neither the queue nor accounting has its job: ask the admins whether slurmctld lost "
    "jobs.",
}
PREFIX = "at risk: "
HOLDS = frozenset({"JobHeldAdmin", "JobHeldUser"})


def advice(word: str) -> str:
    """A sentence on what to do; empty for what is not known."""
    if word in _ADVICE:
        return _ADVICE[word]
    found = named(word)
    return "" if found is None else found.advice


def of_waiting(standby: Link, links: Sequence[Link]) -> tuple[str, str]:
    """(what it is at risk of, the note) of a pending link; both empty for an ordinary wait.

    A limit that its own predecessor takes up is said and is no risk: overlap is impossible then,
    and the standby starts when the predecessor ends.
    """
    found = _now(standby)
    if found is None:
        return "", ""
    told = f"link {standby.index} (job {standby.job_id}) waits: {found.says}"
    beside = any(li.state is LinkState.RUNNING and li.index < standby.index for li in links)
    if found.cure is Cure.JOBS and beside:
        return "", f"{told}; it cannot start beside its predecessor"
    return found.word, f"{PREFIX}{told}"


def _now(standby: Link) -> Hindrance | None:
    """What hinders it still, as two looks have shown."""
    hindered = standby.hindered and standby.hindered == standby.reason
    return named(standby.hindered) if hindered else None
