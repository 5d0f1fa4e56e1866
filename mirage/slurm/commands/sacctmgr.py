"""sacctmgr: QOS, associations and users of accounting, as `-P` prints them with their header."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.domain.tres import parse_tres
from mirage.errors import MalformedText
from mirage.slurm.text.delimited_rows import Row

_QOS_COLUMNS = frozenset({"Name", "Priority"})
_ASSOCIATION_COLUMNS = frozenset({"Cluster", "Account", "User", "Share"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QosRecord:
    name: str
    priority: int
    max_jobs_pu: int
    """0: no limit, here and in the fields below."""
    max_submit_pu: int
    max_tres_pu: Mapping[str, int]
    """Limits by TRES; memory in MiB."""
    flags: frozenset[str]
    others: Mapping[str, str]
    """Other limits that are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationRecord:
    cluster: str
    account: str
    parent: str
    """The parent account's name; empty where the release does not print it."""
    user: str
    """The user; empty: the association of the account itself."""
    share: int | None
    """None: `parent`."""
    default_qos: str
    limits: Mapping[str, str]
    """The limits that are set, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Users who may do more than others."""

    operators: frozenset[str] = frozenset()
    """Users with AdminLevel Operator or Administrator."""
    coordinated: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The accounts that each user coordinates, with the accounts below them."""


NO_ROSTER = Roster()
"""Stands for a roster that is not known; compare by `is`."""

OPERATORS = ("Operator", "Administrator")

_NAME = re.compile(r"[^\s|,]+")
_ASKABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+@/-]{0,127}")
"""A safe name of an account: a command or a database takes it for nothing else."""


def build_show_level_argv(level: str) -> list[str]:
    """Build the command that shows the users of one AdminLevel. slurmdbd selects them.

    Do not ask for a table of users and levels instead. Coordinators add users and accounts of any
    name, newlines and bars included (22.05), and such a name would look like a row. Coordinators
    can give nobody a level, so this answer has none of their names.
    """
    return ["sacctmgr", "-n", "-P", "show", "user", "where", f"adminlevel={level}", "format=user"]


def parse_level(answer: str) -> frozenset[str]:
    """Parse the users of one AdminLevel. Raises MalformedText for an incomplete answer."""
    return frozenset(line for line in _split_lines(answer) if _NAME.fullmatch(line))


def build_show_coordinators_argv(account: str | None = None) -> list[str]:
    """Build the command that shows coordinators.

    For all accounts it prints each account before its coordinators; for one account, its
    coordinators alone.
    """
    selection = [] if account is None else ["where", f"name={account}"]
    columns = "account,coordinators" if account is None else "coordinators"
    return ["sacctmgr", "-n", "-P", "show", "account", *selection, "withcoord", f"format={columns}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    by_account: Mapping[str, frozenset[str]]
    doubtful: tuple[str, ...] = ()
    """Accounts that have to be queried one by one."""
    unsafe_count: int = 0
    """The number of further accounts in doubt, whose names are not safe to ask with. Nobody counts
    as their coordinator."""


def parse_coordinators(answer: str) -> Coordinators:
    """Parse the coordinators of all accounts. Raises MalformedText for an answer that was cut
    short.

    A coordinator may name accounts and users so that they look like rows of other accounts. But
    each account has a line of its own, which begins with its name. A second line that begins with
    the same name makes the account doubtful. A line of an account that does not exist does no harm.
    """
    rows: dict[str, list[list[str]]] = {}
    for line in _split_lines(answer):
        cells = line.split("|")
        rows.setdefault(cells[0].casefold(), []).append(cells)
    certain = {lines[0][0]: lines[0][1] for lines in rows.values() if _is_unambiguous(lines)}
    doubtful = [lines[0][0] for lines in rows.values() if not _is_unambiguous(lines)]
    askable = tuple(name for name in doubtful if _ASKABLE.fullmatch(name))
    return Coordinators(
        by_account={name: _parse_users(cell) for name, cell in certain.items()},
        doubtful=askable,
        unsafe_count=len(doubtful) - len(askable),
    )


def _is_unambiguous(rows: Sequence[Sequence[str]]) -> bool:
    return len(rows) == 1 and len(rows[0]) == len(("account", "coordinators"))


def parse_account_coordinators(answer: str) -> frozenset[str]:
    """Parse the coordinators of one account. Only they can write into this answer. Raises
    MalformedText."""
    return frozenset().union(*(_parse_users(line) for line in _split_lines(answer)))


def build_roster(operators: frozenset[str], by_account: Mapping[str, frozenset[str]]) -> Roster:
    coordinated: dict[str, set[str]] = {}
    for account, users in by_account.items():
        for user in users:
            coordinated.setdefault(user, set()).add(account)
    return Roster(
        operators=operators,
        coordinated={user: frozenset(accounts) for user, accounts in coordinated.items()},
    )


def _parse_users(cell: str) -> frozenset[str]:
    return frozenset(name for name in cell.split(",") if _NAME.fullmatch(name))


def _split_lines(answer: str) -> list[str]:
    """Split at newlines only. `str.splitlines` also splits at other characters, which a name may
    hold.

    Raises MalformedText for an answer that ends in the middle of a row.
    """
    *lines, rest = answer.split("\n")
    if rest:
        raise MalformedText(f"sacctmgr's answer ends in the middle of a row: {rest[:80]!r}")
    return lines


def build_show_qos_argv() -> list[str]:
    return ["sacctmgr", "-P", "show", "qos"]


def build_show_associations_argv() -> list[str]:
    return ["sacctmgr", "-P", "show", "assoc"]


def parse_qos(answer: str) -> tuple[QosRecord, ...]:
    """Parse a table of QOS. Raises MalformedText for any other text."""
    return tuple(_parse_qos_row(row) for row in _parse_rows(answer, _QOS_COLUMNS))


def _parse_qos_row(row: Row) -> QosRecord:
    own_columns = {"Name", "Priority", "MaxJobsPU", "MaxTRESPU", "MaxSubmitPU", "UsageFactor"}
    own_columns |= {"GraceTime", "PreemptMode", "Flags"}
    return QosRecord(
        name=row["Name"],
        priority=_parse_count(row, "Priority"),
        max_jobs_pu=_parse_count(row, "MaxJobsPU"),
        max_submit_pu=_parse_count(row, "MaxSubmitPU"),
        max_tres_pu=parse_tres(row.get("MaxTRESPU", "")),
        flags=frozenset(row.get("Flags", "").split(",")) - {""},
        others={key: value for key, value in row.items() if value and key not in own_columns}
        | _parse_usage_factor(row),
    )


def _parse_usage_factor(row: Row) -> dict[str, str]:
    value = row.get("UsageFactor", "")
    return {} if value in {"", "1.000000"} else {"UsageFactor": value}


_ASSOCIATION_FACTS = frozenset(
    {"Cluster", "Account", "User", "Partition", "Share", "Priority", "QOS", "Def QOS"}
    | {"ParentName", "Comment", "Lineage"}
)


def parse_associations(answer: str) -> tuple[AssociationRecord, ...]:
    """Parse a table of associations.

    Coordinators choose names of accounts and users freely, so a part of a name may look like the
    row of another association. The rest of such a name has another number of cells, and is left
    out. Raises MalformedText for another text, and if an association occurs twice.
    """
    lines = _split_table(answer, _ASSOCIATION_COLUMNS)
    header = next(lines)
    rows = [dict(zip(header, cells, strict=True)) for cells in lines if len(cells) == len(header)]
    keys = Counter((r["Cluster"], r["Account"], r["User"], r.get("Partition", "")) for r in rows)
    for (_, account, user, _), count in keys.items():
        if count > 1:
            name = " of ".join(filter(None, (user, account)))
            raise MalformedText(f"two associations are {name[:80]!r}")
    return tuple(_parse_association(row) for row in rows)


def _parse_association(row: Row) -> AssociationRecord:
    return AssociationRecord(
        cluster=row["Cluster"],
        account=row["Account"],
        parent=row.get("ParentName", ""),
        user=row["User"],
        share=None if row["Share"] == "parent" else _parse_count(row, "Share"),
        default_qos=row.get("Def QOS", ""),
        limits={k: v for k, v in row.items() if v and k not in _ASSOCIATION_FACTS},
    )


def _parse_rows(answer: str, needed: frozenset[str]) -> list[Row]:
    lines = _split_table(answer, needed)
    header = next(lines)
    rows = []
    for cells in lines:
        if len(cells) != len(header):
            short = "|".join(cells)[:80]
            raise MalformedText(f"sacctmgr's answer has a row cut short: {short!r}")
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def _split_table(answer: str, needed: frozenset[str]) -> Iterator[list[str]]:
    """Yield the cells of each line, the header's first."""
    lines = [line for line in answer.split("\n") if line.strip()]
    if not lines:
        raise MalformedText("sacctmgr's answer is empty: not even the header is there")
    if not needed <= set(lines[0].split("|")):
        raise MalformedText(f"not a table of sacctmgr -P: {lines[0][:80]!r}")
    return (line.split("|") for line in lines)


def _parse_count(row: Row, key: str) -> int:
    text = row.get(key, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise MalformedText(f"sacctmgr: {key} {text[:40]!r} is not a number")
    return int(text)
