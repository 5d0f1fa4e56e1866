"""sacct's second answer: what users wrote, added to records that are known from the first.

Whoever reads the separator in the command's arguments in time can write whole rows into a comment
of their own. Such a row names a record that does not exist, or gives a second text to one that
does: it cannot take away that record's own row. (A record that slurmdbd forgets between the two
answers has no own row here, and a forged one would be its text: it can name chains of that record's
own user alone.) A record with two texts is asked about again,
together with its owner's others alone, and an answer of one user's records holds texts of nobody
else.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.errors import MalformedText
from mirage.slurm.commands.sacct import KEY, RecordKey
from mirage.slurm.text.delimited_rows import Row


@dataclass(slots=True)
class JobTexts:
    found: dict[RecordKey, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """The differing texts that the answer gives for each known record. Empty: a row of another
    length than Slurm's, since its user wrote the separator into it."""
    odd: int = 0
    """The number of rows that show a known job under another user."""

    def select_settled(self) -> dict[RecordKey, Row]:
        """Return the row of each record about which the answer says one thing."""
        return {named: rows[0] for named, rows in self.found.items() if _is_settled(rows)}

    def group_contested(self) -> dict[str, list[RecordKey]]:
        """Return the other records, by their owners' uids."""
        by_owner: dict[str, list[RecordKey]] = defaultdict(list)
        for named, rows in self.found.items():
            if not _is_settled(rows):
                by_owner[_get_owner(named)].append(named)
        return by_owner

    def collect_separator_writers(self) -> set[str]:
        """Return the uids of the records whose own texts hold the separator."""
        return {_get_owner(named) for named, rows in self.found.items() if {} in rows}


def parse_texts(
    answer: str, names: Sequence[str], separator: str, known: Collection[RecordKey]
) -> JobTexts:
    """Rows of `names`, which begin with `KEY`; those of records that are not `known` are left out.

    Raises MalformedText for an answer that was cut short, or has no header.
    """
    cells, width = answer.split(separator), len(names)
    if cells[:width] != list(names) or cells[-1] != "\n":
        raise MalformedText(f"sacct's texts are cut short: {answer[-80:]!r}")
    owners: dict[str, set[str]] = defaultdict(set)
    for job_id, _, uid in known:
        # Numbers are used again: a job of that number may have been another user's.
        owners[job_id].add(uid)
    texts = JobTexts()
    # A text may begin with a newline as well, so a row is told by its key: Slurm's own rows are
    # always among those that begin with a known one.
    for i in range(width, len(cells) - 1):
        if not cells[i].startswith("\n"):
            continue
        row_cells = [cells[i][1:], *cells[i + 1 : i + width]]
        named = tuple(row_cells[: len(KEY)])
        if named in known:
            is_whole = i + width < len(cells) and cells[i + width].startswith("\n")
            row = dict(zip(names, row_cells, strict=True)) if is_whole else {}
            if row not in texts.found[named]:
                texts.found[named].append(row)
        elif len(named) == len(KEY) and _is_of_other_user(named, owners):
            texts.odd += 1
    return texts


def is_forged(row: Row, own: Mapping[str, str]) -> bool:
    """Return whether a contested text is forged.

    It is not forged if the record changed while sacct read it. Texts appear as a job ends
    (22.05.8): the earlier row has none in their place.
    """
    return any(text not in {"", own.get(name, "")} for name, text in row.items())


def _is_settled(rows: Sequence[Row]) -> bool:
    return len(rows) == 1 and bool(rows[0])


def _is_of_other_user(cells: Sequence[str], owners: Mapping[str, set[str]]) -> bool:
    job_id, _, uid = cells[: len(KEY)]
    return job_id in owners and uid not in owners[job_id]


def _get_owner(named: RecordKey) -> str:
    return named[KEY.index("UID")]
