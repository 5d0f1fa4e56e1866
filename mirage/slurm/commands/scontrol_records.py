"""The records of `scontrol show node | partition | reservation`: `Key=value` after `Key=value`.

With `-o` a record is a line; without it (captured texts) it ends at a blank line.
"""

import re
from collections import Counter
from itertools import pairwise

from mirage.errors import MalformedText

_KEY = re.compile(r"(?:^|\s)(?P<key>[A-Z][A-Za-z_/:]*)=")
"""Values may hold blanks, keys never do: a key begins a line or follows a blank."""
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")
_UNSET = frozenset({"(null)", "N/A", "NONE"})


def parse_records(answer: str, first_key: str) -> list[dict[str, str]]:
    """A record for each `first_key=`; unset values are empty. Other text is left out.

    Free text (Reason, Comment) comes after the facts and may hold anything, a newline and other
    records too: no key counts from there on. Raises MalformedText where two records have one name.
    """
    lines = answer.split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith(f"{first_key}=")]
    spans = pairwise([*starts, len(lines)])
    found = [_parse_record(_join_lines(lines[i:j])) for i, j in spans]
    for name, times in Counter(record[first_key] for record in found).items():
        if times > 1:
            raise MalformedText(f"{times} records are {first_key}={name[:80]}")
    return found


def _join_lines(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line.strip():
            break
        kept.append(line.strip())
    return " ".join(kept)


def _parse_record(text: str) -> dict[str, str]:
    text = _FREE_TEXT.split(text, 1)[0]
    keys = list(_KEY.finditer(text))
    ends = [key.start() for key in keys[1:]] + [len(text)]
    values: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=True):
        value = text[key.end() : end].strip()
        values.setdefault(key["key"], "" if value in _UNSET else value)
    return values
