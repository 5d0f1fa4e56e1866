"""sacctmgr: QOS, associations and users of accounting, as `-P` prints them with their header."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.domain.tres import parse_tres
from mirage.errors import MalformedText

Row = dict[str, str]

_QOS_COLUMNS = frozenset({"Name", "Priority"})
_ASSOCIATION_COLUMNS = frozenset({"Cluster", "Account", "User", "Share"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQos:
    name: str
    priority: int
    max_jobs_pu: int
    """0: no limit, here and below."""
    max_submit_pu: int
    max_tres_pu: Mapping[str, int]
    """By TRES; memory in MiB."""
    others: Mapping[str, str]
    """Set limits and flags that are none of the above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAssociation:
    cluster: str
    account: str
    parent: str
    """The parent account's name; empty where the release does not print it."""
    user: str
    """Empty: of the account itself."""
    share: int | None
    """None: `parent`."""
    default_qos: str
    limits: Mapping[str, str]
    """Those set, by column."""


_USER_COLUMNS = frozenset({"User", "Admin", "Coord Accounts"})
_OPERATORS = frozenset({"Operator", "Administrator"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """Users who may do more than others."""

    operators: frozenset[str] = frozenset()
    """AdminLevel Operator or Administrator."""
    coordinated: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By user: the accounts that they coordinate, those below them included."""


def show_users_argv() -> list[str]:
    return ["sacctmgr", "-P", "show", "user", "withcoord", "format=user,admin,coordinators"]


def parse_users(answer: str) -> Roster:
    """Raises MalformedText for what is no such table."""
    rows = _rows(answer, _USER_COLUMNS)
    coordinated = {row["User"]: frozenset(row["Coord Accounts"].split(",")) - {""} for row in rows}
    return Roster(
        operators=frozenset(row["User"] for row in rows if row["Admin"] in _OPERATORS),
        coordinated={user: accounts for user, accounts in coordinated.items() if accounts},
    )


def show_qos_argv() -> list[str]:
    return ["sacctmgr", "-P", "show", "qos"]


def show_associations_argv() -> list[str]:
    return ["sacctmgr", "-P", "show", "assoc"]


def parse_qos(answer: str) -> tuple[ShownQos, ...]:
    """Raises MalformedText for what is no such table."""
    return tuple(_qos(row) for row in _rows(answer, _QOS_COLUMNS))


def _qos(row: Row) -> ShownQos:
    taken = {"Name", "Priority", "MaxJobsPU", "MaxTRESPU", "MaxSubmitPU", "UsageFactor"}
    taken |= {"GraceTime", "PreemptMode"}
    return ShownQos(
        name=row["Name"],
        priority=_count(row, "Priority"),
        max_jobs_pu=_count(row, "MaxJobsPU"),
        max_submit_pu=_count(row, "MaxSubmitPU"),
        max_tres_pu=parse_tres(row.get("MaxTRESPU", "")),
        others={key: value for key, value in row.items() if value and key not in taken}
        | _usage_factor(row),
    )


def _usage_factor(row: Row) -> dict[str, str]:
    value = row.get("UsageFactor", "")
    return {} if value in {"", "1.000000"} else {"UsageFactor": value}


_ASSOCIATION_FACTS = frozenset(
    {"Cluster", "Account", "User", "Partition", "Share", "Priority", "QOS", "Def QOS"}
    | {"ParentName", "Comment", "Lineage"}
)


def parse_associations(answer: str) -> tuple[ShownAssociation, ...]:
    """Raises MalformedText for what is no such table."""
    return tuple(_association(row) for row in _rows(answer, _ASSOCIATION_COLUMNS))


def _association(row: Row) -> ShownAssociation:
    return ShownAssociation(
        cluster=row["Cluster"],
        account=row["Account"],
        parent=row.get("ParentName", ""),
        user=row["User"],
        share=None if row["Share"] == "parent" else _count(row, "Share"),
        default_qos=row.get("Def QOS", ""),
        limits={k: v for k, v in row.items() if v and k not in _ASSOCIATION_FACTS},
    )


def _rows(answer: str, needed: frozenset[str]) -> list[Row]:
    lines = [line for line in answer.splitlines() if line.strip()]
    if not lines:
        raise MalformedText("sacctmgr's answer is empty: not even the header is there")
    header = lines[0].split("|")
    if not needed <= set(header):
        raise MalformedText(f"not a table of sacctmgr -P: {lines[0][:80]!r}")
    rows = []
    for line in lines[1:]:
        cells = line.split("|")
        if len(cells) != len(header):
            raise MalformedText(f"sacctmgr's answer has a row cut short: {line[:80]!r}")
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def _count(row: Row, key: str) -> int:
    text = row.get(key, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise MalformedText(f"sacctmgr: {key} {text[:40]!r} is not a number")
    return int(text)
