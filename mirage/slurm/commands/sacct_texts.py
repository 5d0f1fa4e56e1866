"""sacct's second answer: users' texts, for the records that the first answer has.

A user who reads the separator in the command's arguments in time can write whole rows into a
comment of their own. Such a forged row names a record that does not exist, or gives a second text
to an existing record. It cannot remove the record's real row. So a record with two different texts
is contested, and is asked about again, in one call for each owner: an answer about one user's
records holds texts of nobody else.

One gap is left. If slurmdbd forgets a record between the two answers, the record has no real row
here, and a forged row is taken as its text. That text can only name chains of the record's own
user.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.errors import MalformedText
from mirage.slurm.commands.sacct import KEY, RecordKey
from mirage.slurm.text.delimited_rows import Row


@dataclass(slots=True)
class JobTexts:
    """The rows of the second answer, sorted by the record that each one names."""

    rows_by_record: dict[RecordKey, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """The different rows that the answer gives for each known record. An empty row stands for one
    with too few or too many fields: its user wrote the separator into a text."""
    misattributed_rows: int = 0
    """The number of rows that show a known job under another user."""

    def select_settled(self) -> dict[RecordKey, Row]:
        """Return the row of each record for which the answer has exactly one row."""
        return {key: rows[0] for key, rows in self.rows_by_record.items() if _is_settled(rows)}

    def group_contested(self) -> dict[str, list[RecordKey]]:
        """Return the other records, by their owners' uids."""
        by_owner: dict[str, list[RecordKey]] = defaultdict(list)
        for key, rows in self.rows_by_record.items():
            if not _is_settled(rows):
                by_owner[_get_owner(key)].append(key)
        return by_owner

    def collect_separator_writers(self) -> set[str]:
        """Return the uids of the records whose own texts hold the separator."""
        return {_get_owner(key) for key, rows in self.rows_by_record.items() if {} in rows}


def parse_texts(
    answer: str, names: Sequence[str], separator: str, known_keys: Collection[RecordKey]
) -> JobTexts:
    """Parse the rows of the fields `names`, which begin with `KEY`. Rows of records that are not
    among `known_keys` are left out.

    Raises MalformedText for an answer that was cut short, or has no header.
    """
    cells, width = answer.split(separator), len(names)
    if cells[:width] != list(names) or cells[-1] != "\n":
        raise MalformedText(f"sacct's texts are cut short: {answer[-80:]!r}")
    owners: dict[str, set[str]] = defaultdict(set)
    for job_id, _, uid in known_keys:
        # Slurm reuses job ids: an earlier job of the same id may have another owner.
        owners[job_id].add(uid)
    texts = JobTexts()
    # A user's text may begin with a newline too, so a newline alone does not make a row. Every row
    # of Slurm's own begins with a key of the first answer.
    for i in range(width, len(cells) - 1):
        if not cells[i].startswith("\n"):
            continue
        row_cells = [cells[i][1:], *cells[i + 1 : i + width]]
        key = tuple(row_cells[: len(KEY)])
        if key in known_keys:
            is_whole = i + width < len(cells) and cells[i + width].startswith("\n")
            row = dict(zip(names, row_cells, strict=True)) if is_whole else {}
            if row not in texts.rows_by_record[key]:
                texts.rows_by_record[key].append(row)
        elif len(key) == len(KEY) and _is_of_other_user(key, owners):
            texts.misattributed_rows += 1
    return texts


def is_forged(row: Row, own: Mapping[str, str]) -> bool:
    """Return whether a row of a contested record is forged: one of its texts is not in `own`, the
    record's row from the answer about its owner alone.

    An empty text is no sign of forgery: accounting gets the texts as a job ends (22.05.8), and the
    record may have changed while sacct read it.
    """
    return any(text not in {"", own.get(name, "")} for name, text in row.items())


def _is_settled(rows: Sequence[Row]) -> bool:
    return len(rows) == 1 and bool(rows[0])


def _is_of_other_user(cells: Sequence[str], owners: Mapping[str, set[str]]) -> bool:
    job_id, _, uid = cells[: len(KEY)]
    return job_id in owners and uid not in owners[job_id]


def _get_owner(key: RecordKey) -> str:
    return key[KEY.index("UID")]
