"""Generic resources as sinfo and squeue print them: `gpu:a100:4(IDX:0-2,5),gres/gpu:2`."""

import re

_INDEXES = re.compile(r"\([^)]*\)")
_GPUS = re.compile(r"(?:gres[:/])?gpu(?::(?P<type>[^:=]*[^:=\d][^:=]*))?(?:[:=](?P<count>\d+))?")


def gpu_count(text: str) -> int:
    """GPUs in the list, of all types together; a name without a count is one."""
    matches = (_GPUS.fullmatch(term.strip()) for term in _INDEXES.sub("", text).split(","))
    return sum(int(m["count"] or 1) for m in matches if m is not None)
