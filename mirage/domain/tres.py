"""Trackable resources: `cpu=4,mem=10G,gres/gpu:a100=2` and their arithmetic."""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from mirage.errors import MalformedText

SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)([KMGTP]?)[nc]?", re.ASCII)
_MIB = 1 << 20


@lru_cache(maxsize=4096)
def parse_tres(text: str) -> Mapping[str, int]:
    """Amounts by name: memory in MiB (Slurm's unit when none is written), the rest as counts.

    Thousands of jobs ask for the same.
    """
    amounts: dict[str, int] = {}
    for term in filter(None, text.strip().split(",")):
        name, equals, value = term.partition("=")
        match = _AMOUNT.fullmatch(value)
        if not equals or match is None:
            raise MalformedText(f"not a TRES list: {text!r}")
        number, suffix = float(match[1]), match[2]
        if name == "mem":
            amounts[name] = int(number * SUFFIXES[suffix or "M"] / _MIB)
        else:
            amounts[name] = int(number * SUFFIXES[suffix])
    return MappingProxyType(amounts)


def count_gpus(tres: Mapping[str, int]) -> int:
    """Count the GPUs of a TRES list: the untyped count, otherwise the sum over types."""
    if "gres/gpu" in tres:
        return tres["gres/gpu"]
    return sum(n for name, n in tres.items() if name.startswith("gres/gpu:"))
