"""Trackable resources: `cpu=4,mem=10G,gres/gpu:a100=2` and their arithmetic."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from mirage.errors import MalformedText

SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
SUFFIXES["E"] = 1 << 60
"""Slurm writes "not set" of a 64-bit number as 16E."""
LARGEST = 2**53
"""The largest number that is added and stored without loss. Larger 64-bit numbers of Slurm mean
"not set"."""
_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)([KMGTPE]?)[nc]?", re.ASCII)
_MIB = 1 << 20
_GPU = "gres/gpu"
_NO_TRES = frozenset({"N/A", "(null)"})


@lru_cache(maxsize=4096)
def parse_tres(text: str) -> Mapping[str, int]:
    """Parse a TRES list to amounts by name: memory in MiB (Slurm's unit if none is written), the
    rest as counts. Raises MalformedText.

    Answers are cached, since thousands of jobs ask for the same resources.
    """
    amounts: dict[str, int] = {}
    for name, value in _split_terms(text):
        amount = _parse_amount(name, value)
        if amount is None:
            raise MalformedText(f"not a TRES list: {text!r}")
        amounts[name] = amount
    return MappingProxyType(amounts)


@lru_cache(maxsize=4096)
def parse_readable_tres(text: str) -> tuple[Mapping[str, int], frozenset[str]]:
    """Parse the TRES of a job, which its user may have written.

    Returns the amounts that are set, as `parse_tres` does, and the names whose amounts cannot be
    parsed. `N/A` has neither.
    """
    amounts: dict[str, int] = {}
    unread = set[str]()
    for name, value in _split_terms("" if text.strip() in _NO_TRES else text):
        amount = _parse_amount(name, value)
        if amount is None or (amount > LARGEST and names_gpus([name])):
            unread.add(name)
        elif amount <= LARGEST:
            amounts[name] = amount
    return MappingProxyType(amounts), frozenset(unread)


def _split_terms(text: str) -> list[tuple[str, str]]:
    terms = (term.partition("=") for term in text.strip().split(",") if term)
    return [(name, value) for name, _, value in terms]


def _parse_amount(name: str, value: str) -> int | None:
    match = _AMOUNT.fullmatch(value)
    if match is None:
        return None
    number, suffix = float(match[1]), match[2]
    if name == "mem":
        return int(number * SUFFIXES[suffix or "M"] / _MIB)
    return int(number * SUFFIXES[suffix])


def count_gpus(tres: Mapping[str, int]) -> int:
    """Count the GPUs of a TRES list: the untyped count, otherwise the sum over types."""
    if _GPU in tres:
        return tres[_GPU]
    return sum(n for name, n in tres.items() if name.startswith(f"{_GPU}:"))


def count_job_gpus(text: str) -> int | None:
    """Count the GPUs of a job's TRES list; None: it names GPUs whose number cannot be parsed."""
    amounts, unread = parse_readable_tres(text)
    return None if names_gpus(unread) and _GPU not in amounts else count_gpus(amounts)


def names_gpus(names: Iterable[str]) -> bool:
    """Return whether GPUs, of any type or of none, are among these TRES."""
    return any(name == _GPU or name.startswith(f"{_GPU}:") for name in names)
