"""Generic resources as Slurm writes them: `gpu:a100:4(IDX:0-2,5),gres/gpu:2`, gres.conf(5).

A term is `NAME[:TYPE][:no_consume]:COUNT[K|M|G|T|P]`, with sockets (`(S:0-1)`) or indexes
(`(IDX:0-2)`) after it. A type may hold digits, `-`, `_` and `.`: `gpu:1g.10gb:2`, `gpu:1080:4`.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from mirage.domain import tres
from mirage.domain.tres import SUFFIXES
from mirage.errors import MalformedText

_REMARK = re.compile(r"\([^()]*\)")
_PREFIX = re.compile(r"(?:gres[:/])*")
_UNIT_PREFIX = re.compile(r"(?:^|,)PER_(JOB|NODE|SOCKET|TASK):", re.ASCII)
_GPU = "gpu"
_COUNT = re.compile(r"(\d{1,15})([KMGTPE]?)", re.ASCII | re.IGNORECASE)
_TYPE = re.compile(r"[\w.-]+", re.ASCII)
_NO_TYPE = frozenset({"no_consume", ""})
"""Words in the place of a type that are no type. `no_consume` means that jobs use up none of the
GPUs, but the node has them. Without a type Slurm may write `gpu:(null):4`."""


class Request(NamedTuple):
    """A job's request for generic resources."""

    text: str
    """As the user wrote it. Slurm keeps any text of a job that is held."""
    units: int | None
    """The number of units (nodes, tasks, sockets) that each get these resources, 1 for the whole
    job; None: the number is not known."""


def count_job_gpus(
    allocated: str, requests: Iterable[Request], details: Iterable[str] = ()
) -> int | None:
    """Count a job's GPUs; None: it has GPUs, and their number is not known.

    The first source that names GPUs decides: `allocated` (TRES), `details` (what each node gave),
    then the requests. `allocated` names no GPUs if the site does not account them
    (AccountingStorageTRES).
    """
    allocated_gpus = tres.count_job_gpus(allocated)
    if allocated_gpus != 0:
        return allocated_gpus
    try:
        gpus = sum(map(count_gpus, details)) or _count_first_request(requests)
    except MalformedText:
        return None
    return gpus if gpus is not None and gpus <= tres.LARGEST else None


def _count_first_request(requests: Iterable[Request]) -> int | None:
    for text, units in requests:
        per_unit = count_gpus(text)
        if per_unit:
            return per_unit * units if units else None
    return 0


def count_gpus(text: str) -> int:
    """Count the GPUs in the list, of all types together. A name without a count is one GPU.

    Raises MalformedText for GPUs that are written in another way.
    """
    return sum(map(_count_term_gpus, _REMARK.sub("", text).split(","))) if _GPU in text else 0


def count_requested_gpus(text: str, nodes: int) -> int:
    """Count the GPUs of the whole job in ReqGRES.

    The text is `gpu:2`, for each node, or `PER_JOB:gpu:8,PER_NODE:gpu:4`, as sacct of 18.08 to
    20.02 writes it. Raises MalformedText for GPUs written in another way, and if the text gives
    only a number for each task or socket.
    """
    per_node, *pairs = _UNIT_PREFIX.split(text)
    by_unit = dict(zip(pairs[::2], map(count_gpus, pairs[1::2]), strict=True))
    by_unit["NODE"] = by_unit.get("NODE", 0) + count_gpus(per_node)
    gpus = by_unit.pop("JOB", 0) or by_unit.pop("NODE") * nodes
    if not gpus and any(by_unit.values()):
        raise MalformedText(
            f"GPUs of each task or socket, whose number is not known: {text[:40]!r}"
        )
    return gpus


def _count_term_gpus(term: str) -> int:
    name, *parts = _PREFIX.sub("", term.strip(), count=1).replace("=", ":").split(":")
    if name != _GPU:
        return 0
    *words, last = [part for part in parts if part not in _NO_TYPE] or ["1"]
    count = _COUNT.fullmatch(last)
    if count is None:
        words.append(last)
    if len(words) > 1 or not all(_TYPE.fullmatch(word) for word in words):
        raise MalformedText(f"not GPUs as gres.conf has them: {term.strip()[:40]!r}")
    return 1 if count is None else int(count[1]) * SUFFIXES[count[2].upper()]
