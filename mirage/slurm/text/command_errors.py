"""Tells from the error texts of Slurm's commands whether Slurm gave no answer, or refused.

Exit codes do not tell the two apart: nearly every error is 1. The texts are those of 22.05.8.
"""

import re

from mirage.errors import AccountingOff, ClusterError, ClusterRefused, ClusterUnavailable

NO_ANSWER = re.compile(
    r"unable to contact|connection|connect failure|timed out|socket|zero bytes"
    r"|send failure|receive failure|unexpected message|message received"
    r"|temporarily|try again|rate limit|presently disabled|standby mode"
    r"|authentication|credential|munge|slurmdbd|database|configuration file"
    r"|can't find an address|resolve|cannot allocate memory|plugin",
    re.IGNORECASE,
)
"""Texts of errors in which Slurm was not reached. "Unexpected message" is what `scontrol update` of
22.05.8 prints when slurmctld does not listen. The same texts stand in
mirage_slurm/planner/slurm_jobs.py."""

_NO_ACCOUNTING = re.compile(r"accounting storage is disabled", re.IGNORECASE)
_REFUSAL = re.compile(r"permission denied|invalid user|invalid job id", re.IGNORECASE)
_ERROR_LINE = re.compile(r"^(?:\w+: (?:error|fatal): |slurm_\w+ error: )", re.MULTILINE)


def is_unreachable(message: str) -> bool:
    """Return whether the message means that Slurm was not reached, rather than that it refused."""
    return NO_ANSWER.search(message) is not None


def is_accounting_off(message: str) -> bool:
    return _NO_ACCOUNTING.search(message) is not None


def is_refusal(message: str) -> bool:
    """Return whether Slurm's message refuses the request."""
    return _REFUSAL.search(message) is not None and not is_unreachable(message)


def classify_query_error(command: str, code: int, stderr: str) -> ClusterError | None:
    """Return the error of a query; None for a good answer.

    Code 0 with an error on stderr is no answer either. Every error that is no clear refusal counts
    as unavailable.
    """
    if code == 0 and _ERROR_LINE.search(stderr) is None:
        return None
    message = _format_error(command, code, stderr)
    if is_accounting_off(stderr):
        return AccountingOff(message)
    if is_refusal(stderr):
        return ClusterRefused(message)
    return ClusterUnavailable(message)


def classify_move_error(command: str, code: int, stderr: str) -> ClusterError | None:
    """Return the error of an update or a cancel; None if it was done.

    Every message that is not about reaching Slurm is a refusal, after which the move is not
    repeated.
    """
    if code == 0 and _ERROR_LINE.search(stderr) is None:
        return None
    message = _format_error(command, code, stderr)
    if code < 0 or not stderr.strip() or is_unreachable(stderr):
        return ClusterUnavailable(message)
    return ClusterRefused(message)


def _format_error(command: str, code: int, stderr: str) -> str:
    lines = list(dict.fromkeys(line.strip() for line in stderr.splitlines() if line.strip()))
    outcome = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{command}: {'; '.join(lines)[:500] or 'no word of why'} ({outcome})"
