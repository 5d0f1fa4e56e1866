"""Which rows of a parquet trace say themselves that their wait is not only the queue's."""

from pathlib import Path

import pyarrow.parquet as pq

_MARK = "_suspect"
"""Ends the flags `dep_suspect` and `userlimit_suspect` (docs/traces.md)."""


def list_suspect_rows(path: Path) -> set[tuple[int, int]]:
    """(job id, submission) of the rows so flagged; none where the file has no column `flags`.

    `path` has been read as a trace before: it is in order.
    """
    if "flags" not in pq.read_schema(path).names:
        return set()
    table = pq.read_table(path, columns=["job_id", "submit", "flags"])
    columns = (table.column(name).to_pylist() for name in ("job_id", "submit", "flags"))
    return {
        (int(job_id), int(submit))
        for job_id, submit, flags in zip(*columns, strict=True)
        if flags and any(flag.endswith(_MARK) for flag in flags.split(";"))
    }
