"""The header line of a dump of `sacct -P`: which delimiter stands between its fields.

`sacct --delimiter` takes any text, and sacct does not escape what of it stands in a field. A
delimiter that Slurm's own values hold cannot be told from them, so it is refused.
"""

import re
from collections.abc import Sequence

from mirage.errors import UnknownFormat

NEEDED = (
    ("JobIDRaw", frozenset({"jobidraw", "jobid"})),
    ("Submit", frozenset({"submit"})),
    ("State", frozenset({"state"})),
)
"""A column by the name that is asked for, and the names that will do."""

_NAMES = """
Account AdminComment AllocCPUS AllocGRES AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead
AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy
ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible
End ExitCode Extra FailedNode Flags GID Group JobID JobIDRaw JobName Layout Licenses MaxDiskRead
MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode
MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU
MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks Partition Planned PlannedCPU PlannedCPURAW
Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS
ReqGRES ReqMem ReqNodes ReqReservation ReqTRES Reservation ReservationId Reserved Restarts ResvCPU
ResvCPURAW SegmentSize SLUID Start State StdErr StdIn StdOut Submit SubmitLine Suspended
SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax
TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask
TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask
TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU WCKey
WCKeyID WorkDir
"""
_KNOWN = frozenset(_NAMES.lower().split())
"""Every field that a release of Slurm has had."""
_LONGEST = 16
"""The most characters of a delimiter."""
_PLAIN = "|"
_NAME = re.compile(r"[A-Za-z_]+")
_IN_VALUES = re.compile(r"[A-Za-z0-9:.,_+=/%()\[\] -]")
"""A character that a time, a node list, a TRES list, a state or an id may hold."""


def find_separator(header: str) -> str | None:
    """Return the text between the names of a header; None: it is no header of sacct.

    Raises UnknownFormat for a delimiter that may also stand in a field.
    """
    for name in _list_first_names(header):
        for length in range(1, min(_LONGEST, len(header) - len(name)) + 1):
            apart = header[len(name) : len(name) + length]
            if _is_separator(header, apart):
                return _check_separator(apart)
    # Columns that no sacct has do not matter where sacct's own delimiter stands between them.
    return _PLAIN if _has_column_names(header.split(_PLAIN)) else None


def _list_first_names(header: str) -> list[str]:
    """The field names that the header may begin with, the longest first: JobIDRaw, JobID."""
    word = re.match(r"[A-Za-z]+", header)
    longest = word[0] if word else ""
    prefixes = (longest[:end] for end in range(len(longest), 0, -1))
    return [prefix for prefix in prefixes if prefix.lower() in _KNOWN]


def _is_separator(header: str, apart: str) -> bool:
    """Return whether nothing but names of fields stands between these separators."""
    names = [name.lower() for name in header.split(apart)]
    if names and not names[-1]:  # `sacct -p` ends each line with one
        names.pop()
    if len(names) < 2 or not all(name in _KNOWN for name in names):  # noqa: PLR2004
        return False
    # Letters may be part of a name that no sacct has.
    return not any(map(str.isalnum, apart)) or _has_needed_names(names)


def _has_needed_names(names: Sequence[str]) -> bool:
    return all(not any_of.isdisjoint(names) for _, any_of in NEEDED)


def _has_column_names(words: Sequence[str]) -> bool:
    """Return whether the words may be names of columns, and are no row without a header."""
    known = any(word.strip().lower() in _KNOWN for word in words)
    return len(words) > 1 and (known or all(_NAME.fullmatch(word.strip()) for word in words))


def _check_separator(apart: str) -> str:
    if all(_IN_VALUES.fullmatch(character) for character in apart):
        raise UnknownFormat(
            f"its columns stand apart by {apart!r}, and {_PLAIN!r} is expected: "
            f"`sacct -P` without --delimiter, for {apart!r} may stand in times and lists as well"
        )
    return apart
