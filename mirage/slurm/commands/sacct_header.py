"""Finds the delimiter of a dump of `sacct -P` by its header line.

`sacct --delimiter` takes any text, and sacct does not escape this text in the fields. A delimiter
that may also occur in Slurm's own values is refused: nobody could tell it from the value.
"""

import re
from collections.abc import Sequence

from mirage.errors import UnknownFormat

NEEDED = (
    ("JobIDRaw", frozenset({"jobidraw", "jobid"})),
    ("Submit", frozenset({"submit"})),
    ("State", frozenset({"state"})),
)
"""A needed column: its name in messages, and the fields of sacct that have its value."""

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
_FIELD_NAMES = frozenset(_NAMES.lower().split())
"""Every field that a release of Slurm has had."""
_LONGEST = 16
"""The most characters of a delimiter."""
_DEFAULT_SEPARATOR = "|"
_NAME = re.compile(r"[A-Za-z_]+")
_VALUE_CHARACTER = re.compile(r"[A-Za-z0-9:.,_+=/%()\[\] -]")
"""A character that a time, a node list, a TRES list, a state or an id may hold."""


def find_separator(header: str) -> str | None:
    """Return the delimiter of a header; None: the line is no header of sacct.

    Raises UnknownFormat for a delimiter that may also occur in a field.
    """
    for name in _list_first_names(header):
        for length in range(1, min(_LONGEST, len(header) - len(name)) + 1):
            separator = header[len(name) : len(name) + length]
            if _is_separator(header, separator):
                return _check_separator(separator)
    # Columns that no sacct has do not matter where sacct's own delimiter stands between them.
    return _DEFAULT_SEPARATOR if _has_column_names(header.split(_DEFAULT_SEPARATOR)) else None


def _list_first_names(header: str) -> list[str]:
    """List the field names that the header may begin with, the longest first: JobIDRaw, JobID."""
    word = re.match(r"[A-Za-z]+", header)
    longest = word[0] if word else ""
    prefixes = (longest[:end] for end in range(len(longest), 0, -1))
    return [prefix for prefix in prefixes if prefix.lower() in _FIELD_NAMES]


def _is_separator(header: str, separator: str) -> bool:
    """Return whether nothing but names of fields stands between these separators."""
    names = [name.lower() for name in header.split(separator)]
    if names and not names[-1]:  # `sacct -p` ends each line with one
        names.pop()
    if len(names) < 2 or not all(name in _FIELD_NAMES for name in names):  # noqa: PLR2004
        return False
    # Letters may be part of a name that no sacct has.
    return not any(map(str.isalnum, separator)) or _has_needed_names(names)


def _has_needed_names(names: Sequence[str]) -> bool:
    return all(not any_of.isdisjoint(names) for _, any_of in NEEDED)


def _has_column_names(words: Sequence[str]) -> bool:
    """Return whether the words may be names of columns, and are no row without a header."""
    has_field_name = any(word.strip().lower() in _FIELD_NAMES for word in words)
    return len(words) > 1 and (
        has_field_name or all(_NAME.fullmatch(word.strip()) for word in words)
    )


def _check_separator(separator: str) -> str:
    if all(_VALUE_CHARACTER.fullmatch(character) for character in separator):
        raise UnknownFormat(
            f"its columns stand apart by {separator!r}, and {_DEFAULT_SEPARATOR!r} is expected: "
            f"`sacct -P` without --delimiter, for {separator!r} may stand in times and lists "
            "as well"
        )
    return separator
