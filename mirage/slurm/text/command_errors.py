"""Tells from the complaints of Slurm's commands whether Slurm gave no answer, or answered no.

Exit codes say little: 1 for nearly everything. The words are those of 22.05.8.
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
22.05.8 prints when slurmctld does not listen. slurm_plugin/mirage_jobs.py has the same texts."""

_NO_ACCOUNTING = re.compile(r"accounting storage is disabled", re.IGNORECASE)
_NO = re.compile(r"permission denied|invalid user|invalid job id", re.IGNORECASE)
_ERROR_LINE = re.compile(r"^(?:\w+: (?:error|fatal): |slurm_\w+ error: )", re.MULTILINE)


def is_unreachable(said: str) -> bool:
    """Return whether Slurm's message means that it was not reached, rather than that it refused."""
    return NO_ANSWER.search(said) is not None


def is_accounting_off(said: str) -> bool:
    return _NO_ACCOUNTING.search(said) is not None


def is_refusal(said: str) -> bool:
    """Return whether Slurm's message refuses the request."""
    return _NO.search(said) is not None and not is_unreachable(said)


def classify_query_error(command: str, code: int, stderr: str) -> ClusterError | None:
    """Return the error of a query; None for a good answer.

    Code 0 with an error on stderr is no answer either. Every error that is no clear refusal counts
    as unavailable.
    """
    if code == 0 and _ERROR_LINE.search(stderr) is None:
        return None
    said = _format_error(command, code, stderr)
    if is_accounting_off(stderr):
        return AccountingOff(said)
    if is_refusal(stderr):
        return ClusterRefused(said)
    return ClusterUnavailable(said)


def classify_move_error(command: str, code: int, stderr: str) -> ClusterError | None:
    """Return the error of an update or a cancel; None if it was done.

    Every message that is not about reaching Slurm is a refusal, after which the move is not
    repeated.
    """
    if code == 0 and _ERROR_LINE.search(stderr) is None:
        return None
    said = _format_error(command, code, stderr)
    if code < 0 or not stderr.strip() or is_unreachable(stderr):
        return ClusterUnavailable(said)
    return ClusterRefused(said)


def _format_error(command: str, code: int, stderr: str) -> str:
    lines = list(dict.fromkeys(line.strip() for line in stderr.splitlines() if line.strip()))
    how = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"{command}: {'; '.join(lines)[:500] or 'no word of why'} ({how})"
