"""sacct's second answer: what users wrote, added to records that are known from the first.

Whoever reads the separator in the command's arguments in time can write whole rows into a comment
of their own. Such a row names a record that does not exist, or gives a second text to one that
does: it cannot take away that record's own row. A record with two texts is asked about again,
together with its owner's others alone, and an answer of one user's records holds texts of nobody
else.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.errors import MalformedText
from mirage.slurm.rows import Row
from mirage.slurm.sacct import KEY, Key, key


@dataclass(slots=True)
class Texts:
    found: dict[Key, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """The differing texts that the answer gives for each known record."""
    odd: int = 0
    """Rows that are no record's: of another length, or of a known job under another user."""

    def settled(self) -> dict[Key, Row]:
        """Of the records about which the answer says one thing."""
        return {named: rows[0] for named, rows in self.found.items() if len(rows) == 1}

    def contested(self) -> dict[str, list[Key]]:
        """The other records, by their owners' uids."""
        by_owner: dict[str, list[Key]] = defaultdict(list)
        for named, rows in self.found.items():
            if len(rows) > 1:
                by_owner[_owner(named)].append(named)
        return by_owner


def parse_texts(answer: str, names: Sequence[str], separator: str, known: Collection[Key]) -> Texts:
    """Rows of `names`, which begin with `KEY`; those of records that are not `known` are left out.

    Raises MalformedText for an answer that was cut short, or has no header.
    """
    header, *rows = answer.split(f"{separator}\n")
    if header.split(separator) != list(names) or not rows or rows.pop():
        raise MalformedText(f"sacct's texts are cut short: {answer[-80:]!r}")
    owners: dict[str, set[str]] = defaultdict(set)
    for job_id, _, uid in known:
        # Numbers are used again: a job of that number may have been another user's.
        owners[job_id].add(uid)
    texts = Texts()
    for cells in (row.split(separator) for row in rows):
        row = dict(zip(names, cells, strict=False))
        if len(cells) != len(names) or _is_anothers(cells, owners):
            texts.odd += 1
        elif key(row) in known and row not in texts.found[key(row)]:
            texts.found[key(row)].append(row)
    return texts


def is_forged(row: Row, own: Mapping[str, str]) -> bool:
    """Whether a contested text is not explained by a record that changed while sacct read it.

    Texts appear as a job ends (22.05.8): the earlier row has none in their place.
    """
    return any(text not in {"", own.get(name, "")} for name, text in row.items())


def _is_anothers(cells: Sequence[str], owners: Mapping[str, set[str]]) -> bool:
    job_id, _, uid = cells[: len(KEY)]
    return job_id in owners and uid not in owners[job_id]


def _owner(named: Key) -> str:
    return named[KEY.index("UID")]
