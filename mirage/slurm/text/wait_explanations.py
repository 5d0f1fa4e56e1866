"""Explains every pending reason in plain words, and says what ends the wait.

Reasons that hinder a job are in `pending_reasons`; the ordinary waits are here.
"""

import re
from dataclasses import dataclass

from mirage.slurm.text.pending_reasons import find_hindrance, find_hindrance_by_word, trim_reason

QUEUE = "queue"
"""The cure of an ordinary wait: the queue itself."""
LONGEST = 40
"""The most characters of an unknown word, of a new release or a plugin of the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitExplanation:
    """The explanation of one pending reason."""

    word: str
    """Slurm's reason."""
    cure: str
    """A `pending_reasons.Cure`, or `QUEUE`."""
    says: str
    """The reason in words, without a full stop; "it" is the job. Empty for an unknown word."""
    advice: str
    """A sentence on what to do; empty: nothing."""


_ORDINARY_WAITS = {
    "Priority": ("jobs with a higher priority stand before it", ""),
    "Resources": ("it is next, and the nodes it needs are not free yet", ""),
    "None": ("Slurm has not looked at it yet", ""),
    "Dependency": ("other jobs that it depends on have not ended", ""),
    "BeginTime": ("its user asked for it to begin later (--begin)", ""),
    "Licenses": ("licenses that it asks for are in use", ""),
    "Reserved": (
        "nodes that it could have are kept for jobs with a higher priority, or are down",
        "",
    ),
    "Cleaning": ("its last run is being cleaned up after a requeue", ""),
    "Prolog": ("the prolog of its nodes runs", ""),
    "JobArrayTaskLimit": (
        "as many tasks of its array run as its user lets run at once (%)",
        "`scontrol update JobId=N ArrayTaskThrottle=M` lets more run.",
    ),
    "PartitionBusy": ("its partition's nodes are all in use", ""),
    "BurstBufferStageIn": ("its data are being staged in", ""),
    "BurstBufferResources": ("the burst buffer that it asks for is in use", ""),
    "Constraints": ("nodes with what it asks for are not free yet", ""),
    "MaxPoweredUpNodes": ("the site lets no more nodes be powered up for now", ""),
    "PowerNotAvail": ("its power cap leaves no power for it yet", ""),
    "PowerReserved": ("power is kept for jobs with a higher priority", ""),
    "MpiPortsBusy": ("the ports that its MPI needs are in use", ""),
    "NvidiaImexChannels": ("all of the IMEX channels of NVIDIA's nodes are in use", ""),
    "SchedDefer": ("slurmctld has put off looking at it", ""),
    "FedJobLock": ("another cluster of the federation is starting it", ""),
    "NonZeroExitCode": ("its last run ended with an exit code other than 0", ""),
    "RaisedSignal": ("its last run was ended by a signal", ""),
    "TimeLimit": ("its last run reached its time limit", ""),
    "InactiveLimit": ("its last run was ended as inactive", ""),
    "OutOfMemory": ("its last run used more memory than it had", ""),
    "Other": ("other reasons, each of few jobs", ""),
}
_SENTENCES = {
    "Nodes required for job are DOWN": "Reserved",
    "ReqNodeNotAvail": "Reserved",
    "": "None",
    "(null)": "None",
}
"""Longer sentences of Slurm for an ordinary wait."""

_WAITS_FOR_NODES = frozenset({"Constraints", "PartitionBusy", "Priority", "Reserved", "Resources"})
"""Reasons of jobs that would start if nodes were free. The same rule stands in
mirage_slurm/planner/slurm_jobs.py."""
_TOPOLOGY = re.compile(r"Required nodes lack available resources|.*\btopology\b.*", re.IGNORECASE)
"""Since 26.05, in the place of `Resources`: also of a standby whose predecessor has its nodes."""


def classify_reason(reason: str) -> str:
    """Classify a pending reason as squeue shows it: return Slurm's word, from a bounded set."""
    hindrance = find_hindrance(reason)
    if hindrance is not None:
        return hindrance.word
    text = trim_reason(reason).replace("_", " ")
    text = _SENTENCES.get(text, text).strip("()")
    if _TOPOLOGY.fullmatch(text):
        return "Resources"
    # `RaisedSignal:9(Killed)`
    return _SENTENCES.get(text, text.partition(" ")[0].partition(":")[0])[:LONGEST]


def waits_for_nodes(word: str) -> bool:
    """Return whether jobs with the word that `classify_reason` gave wait for nodes, and not for a
    date, a person, or a limit of their own."""
    return word in _WAITS_FOR_NODES


def explain_reason(word: str) -> WaitExplanation:
    """Explain the word that `classify_reason` gave."""
    if word in _ORDINARY_WAITS:
        says, advice = _ORDINARY_WAITS[word]
        return WaitExplanation(word=word, cure=QUEUE, says=says, advice=advice)
    hindrance = find_hindrance_by_word(word)
    if hindrance is None:
        return WaitExplanation(word=word, cure=QUEUE, says="", advice="")
    return WaitExplanation(
        word=word, cure=hindrance.cure.value, says=hindrance.says, advice=hindrance.advice
    )
