"""Host lists, as Slurm writes them: `gpu[01-03,7],login1`, with several brackets in a name too."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product

from mirage.errors import MalformedText

MOST_HOSTS = 1 << 17
"""The most hosts of a list, so that a mistyped range cannot fill the memory. Slurm's bound is 64 Ki
nodes."""

_PART = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<plain>[^\[\]]+)")
_RANGE = re.compile(r"(?P<low>\d{1,18})(?:-(?P<high>\d{1,18}))?", re.ASCII)
_DIGITS = "0123456789"
_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma outside of brackets."""


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the names, in the order written, with repeated ones. `(null)` and empty text have no
    names.

    Raises MalformedText for other text, and for more than MOST_HOSTS names.
    """
    if text.strip() in {"", "(null)"}:
        return ()
    names: list[str] = []
    for term in _COMMA.split(text.strip()):
        for name in _expand_term(term.strip()):
            names.append(name)
            if len(names) > MOST_HOSTS:
                raise MalformedText(f"a list of more than {MOST_HOSTS} hosts: {text[:80]!r}")
    return tuple(names)


def compress_hostlist(names: Sequence[str]) -> str:
    """Build a host list that `expand_hostlist` turns into `names` again, in the same order."""
    terms: list[str] = []
    for (prefix, has_number), group in groupby(
        _group_runs(names), key=lambda r: (r.prefix, bool(r.low))
    ):
        runs = list(group)
        is_single_name = len(runs) == 1 and runs[0].low == runs[0].high
        if is_single_name or not has_number:
            terms += [prefix + run.text for run in runs]
        else:
            terms.append(f"{prefix}[{','.join(run.text for run in runs)}]")
    return ",".join(terms)


@dataclass(slots=True)
class _Run:
    """Names that differ in a number which grows by one; without a number it is one name."""

    prefix: str
    low: str
    high: str

    @property
    def text(self) -> str:
        return self.low if self.low == self.high else f"{self.low}-{self.high}"

    @property
    def next(self) -> str:
        return str(int(self.high) + 1).zfill(len(self.low)) if self.high else ""


def _group_runs(names: Sequence[str]) -> list[_Run]:
    runs: list[_Run] = []
    for name in names:
        prefix = name.rstrip(_DIGITS)
        number = name[len(prefix) :]
        if number and runs and runs[-1].prefix == prefix and runs[-1].next == number:
            runs[-1].high = number
        else:
            runs.append(_Run(prefix, number, number))
    return runs


def _expand_term(term: str) -> Iterator[str]:
    parts = list(_PART.finditer(term))
    if not parts or "".join(part[0] for part in parts) != term:
        raise MalformedText(f"not a host list: {term!r}")
    choices = [
        [p["plain"]] if p["ranges"] is None else _expand_ranges(p["ranges"], term) for p in parts
    ]
    return ("".join(parts_of_name) for parts_of_name in product(*choices))


def _expand_ranges(ranges: str, term: str) -> list[str]:
    """Expand ranges: `01-03,7` is 01, 02, 03, 7. Leading zeros of the first number stay, as in
    Slurm."""
    numbers: list[str] = []
    for text in ranges.split(","):
        match = _RANGE.fullmatch(text.strip())
        if match is None:
            raise MalformedText(f"not a host list: {term!r}")
        low = match["low"]
        high = match["high"] or low
        first, last = int(low), int(high)
        if last < first or last - first >= MOST_HOSTS:
            raise MalformedText(f"not a range of hosts: {text.strip()!r} in {term!r}")
        numbers += [str(value).zfill(len(low)) for value in range(first, last + 1)]
    return numbers
