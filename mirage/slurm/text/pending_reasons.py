"""Slurm's pending reasons that do not go away by waiting: what they mean, and what to do.

The words are those of `job_state_reason_string` in 22.05 and later, and of job_reason_codes(7). A
reason that is not here (Priority, Resources, Dependency, BeginTime, Licenses, Constraints,
MaxPoweredUpNodes, MpiPortsBusy, ...) is an ordinary wait, which ends by itself and can be forecast.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Cure(StrEnum):
    PERSON = "person"
    """Somebody has to act: the user, an admin, or the person who grants budgets."""
    DATE = "date"
    """The wait ends at a set time, independent of the queue."""
    JOBS = "jobs"
    """Other jobs of the same user, account or QOS have to end first. That may be only the chain's
    own predecessor, while it runs."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    word: str
    """Slurm's reason without what follows it, from a bounded set, for labels."""
    cure: Cure
    says: str
    """The reason in words, without a full stop; "it" is the job."""
    advice: str
    """A sentence on what to do."""


def _build_hindrances(cure: Cure, says: str, advice: str, *words: str) -> dict[str, Hindrance]:
    return {word: Hindrance(word, cure, says, advice) for word in words}


_MAINTENANCE = Hindrance(
    "Maintenance",
    Cure.DATE,
    "its time limit reaches into a maintenance reservation",
    "It starts when the maintenance is over; a shorter time limit (scontrol update JobId=N "
    "TimeLimit=...) lets it start before. `scontrol show reservation` has the dates.",
)

_TABLE: dict[str, Hindrance] = {
    **_build_hindrances(
        Cure.PERSON,
        "an admin holds it",
        "Ask the admins why: only they can release it.",
        "JobHeldAdmin",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "its owner holds it",
        "`scontrol release JOB` lets it go.",
        "JobHeldUser",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "Slurm requeued it too often, or could not launch it, and holds it",
        "Look into its output for the cause; then `scontrol release JOB`.",
        *("JobHoldMaxRequeue", "JobLaunchFailure"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "it was requeued and is held: by whoever asked for that, by its exit code, or after an "
        "expedited requeue whose epilog did not fail",
        "Nothing behind it starts meanwhile. `scontrol release JOB` lets it run again; `scancel "
        "JOB` gives it up.",
        "RequeueHeld",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "another job that it depends on did not end as it asks for",
        "It will never start: clear the dependency (scontrol update JobId=JOB Dependency=), or "
        "cancel it, and the running link makes another.",
        "DependencyNeverSatisfied",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "nodes that it could run on, or that it asks for by name, are down, drained or reserved",
        "It starts once enough of its nodes are back or free. One that asks for nodes by name can "
        "ask for others (scontrol update JobId=JOB ReqNodeList=).",
        *("ReqNodeNotAvail", "NodeDown", "FrontEndDown"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "its partition is closed",
        "Ask the admins when it opens, or move the job (scontrol update JobId=JOB Partition=...).",
        *("PartitionDown", "PartitionInactive"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "it asks for more nodes or time than its partition ever gives",
        "Lower the time limit or the nodes, or name another partition.",
        *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "it asks for more memory than a node or CPU may give one job (MaxMemPerNode, MaxMemPerCPU)",
        "Ask for less memory (scontrol update JobId=JOB MinMemoryNode=...), or for more nodes.",
        "MaxMemPerLimit",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "no node, or no combination of nodes, has what it asks for",
        "Change what it asks for: constraints, GPUs, CPUs or memory.",
        "BadConstraints",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "its account, QOS or group is not valid, or not allowed in its partition",
        "Ask the admins, or name another account or QOS (scontrol update JobId=JOB Account=...).",
        *("InvalidAccount", "InvalidQOS", "QOSNotAllowed", "AccountNotAllowed"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "the usage of its account is above what its QOS wants",
        "It starts when the usage has decayed or the budget is raised: ask for either.",
        "QOSUsageThreshold",
    ),
    **_build_hindrances(
        Cure.PERSON,
        "its reservation is gone or has not begun",
        "`scontrol show reservation` has the dates; scontrol update JobId=JOB ReservationName= "
        "lets it run outside.",
        *("Reservation", "ReservationDeleted", "ReservationInvalid"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "it cannot start before its deadline any more",
        "Slurm removes it. Submit the chain again with a later deadline, or without one.",
        *("DeadLine", "Deadline"),
    ),
    **_build_hindrances(
        Cure.PERSON,
        "Slurm failed on it",
        "Ask the admins: slurmctld's log has the reason.",
        *("SystemFailure", "BurstBufferOperation"),
    ),
}

_SENTENCES: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), word)
    for pattern, word in (
        (r"(?:launch|user env retrieval) failed requeued held", "JobLaunchFailure"),
        (r"job requeued in (?:held|special exit) state", "RequeueHeld"),
        (r"Job's account not permitted to use this partition.*", "AccountNotAllowed"),
        (r"Job's QOS not permitted to use this partition.*", "QOSNotAllowed"),
        (r"uid \d+ not in group permitted to use this partition.*", "AccountNotAllowed"),
        (r"Reservation .* was deleted", "ReservationDeleted"),
        (r"Reservation .* is invalid", "ReservationInvalid"),
    )
]
"""Sentences that Slurm shows in place of a word, with `_` or blanks between words. They may hold
names."""

_PLANNED_FOR_OTHERS = re.compile(r"may be reserved for other job", re.IGNORECASE)
_MAINTENANCE_WORD = re.compile(r"maintenance", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _LimitFamily:
    """Limits of QOS and associations: one name for each resource, and more with each release."""

    pattern: re.Pattern[str]
    cure: Cure
    says: str
    advice: str


_FAMILIES: Sequence[_LimitFamily] = (
    _LimitFamily(
        re.compile(r"(?:QOS|Assoc)Grp\w*?(?<!Run)Minutes(?:Limit)?"),
        Cure.PERSON,
        "the budget of its account or QOS is used up",
        "Ask for more of it; Slurm starts the job once there is some.",
    ),
    _LimitFamily(
        re.compile(r"(?:QOS|Assoc)Max\w*?Per(?:Job|Node)\w*|(?:QOS|Assoc)Min\w*"),
        Cure.PERSON,
        "it asks for more, or less, than its QOS or association lets one job have",
        "Change what it asks for, or name another QOS.",
    ),
    _LimitFamily(
        re.compile(r"(?:QOS|Assoc(?:iation)?)(?:GrpWall\w*|TimeLimit)"),
        Cure.PERSON,
        "the wall time that its QOS or association gives is used up",
        "Ask for more of it, or lower the time limit.",
    ),
    _LimitFamily(
        re.compile(
            r"(?:QOS|Assoc(?:iation)?)(?:Grp|Max|JobLimit|Resource)\w*"
            r"|Max\w+Per(?:Account|User)|AccountingPolicy"
        ),
        Cure.JOBS,
        "a limit of its user, account or QOS is reached",
        "It starts when other jobs under the same limit have ended. Cancel what is not needed.",
    ),
)

KNOWN_HINDRANCES = (_MAINTENANCE, *_TABLE.values())
"""Hindrances with a word of their own. Families add more."""


def find_hindrance(reason: str) -> Hindrance | None:
    """Find what hinders a job, by its pending reason as squeue shows it, with any list of nodes.

    None: an ordinary wait. `ReqNodeNotAvail, Reserved for maintenance` is maintenance. `..., May be
    reserved for other job` means that backfill planned another job there: an ordinary wait.
    """
    plain = reason.strip().strip("()").replace("_", " ")
    if _is_planned_for_others(plain):
        return None
    word = _match_sentence(plain) or plain.partition(",")[0].partition(" ")[0]
    if word == "ReqNodeNotAvail" and _MAINTENANCE_WORD.search(plain):
        return _MAINTENANCE
    if word in _TABLE:
        return _TABLE[word]
    for family in _FAMILIES:
        if family.pattern.fullmatch(word):
            return Hindrance(word, family.cure, family.says, family.advice)
    return None


def can_hide_nodes(reason: str) -> bool:
    """Return whether the reason may stand for out-of-service nodes without naming them."""
    return reason.lstrip("(").startswith("ReqNodeNotAvail") and _is_planned_for_others(reason)


def format_unavailable_nodes(node_list: str) -> str:
    """Build the reason, in Slurm's words, that names the unavailable nodes."""
    return f"ReqNodeNotAvail, UnavailableNodes:{node_list}"


def _is_planned_for_others(reason: str) -> bool:
    return _PLANNED_FOR_OTHERS.search(reason.replace("_", " ")) is not None


def _match_sentence(plain: str) -> str | None:
    return next((word for pattern, word in _SENTENCES if pattern.fullmatch(plain)), None)


def find_hindrance_by_word(word: str) -> Hindrance | None:
    """Find the hindrance whose `Hindrance.word` this is; None: an ordinary wait."""
    return _MAINTENANCE if word == _MAINTENANCE.word else find_hindrance(word)


def trim_reason(reason: str) -> str:
    """Return the reason without lists of nodes, as it is stored."""
    return reason.partition(",")[0].strip()[:80]
