"""Limits on how many waiting jobs earn age (MaxJobsAccrue and its like), as sacctmgr prints them.

A standby that is released or pinned beyond such a limit waits, but earns no age.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mirage.errors import MalformedText

_QOS = ("Name", "MaxJobsAccruePU", "MaxJobsAccruePA", "GrpJobsAccrue")
_ASSOCIATION = ("Account", "User", "ParentName", "MaxJobsAccrue", "GrpJobsAccrue")


class AccrueScope(StrEnum):
    """The group whose jobs one limit counts together."""

    USER = "a user"
    ACCOUNT = "an account"
    ALL = "all users"


_SCOPES = {
    "MaxJobsAccruePU": AccrueScope.USER,
    "MaxJobsAccruePA": AccrueScope.ACCOUNT,
    "MaxJobsAccrue": AccrueScope.USER,
    "GrpJobsAccrue": AccrueScope.ALL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccrueLimit:
    word: str
    """Slurm's name of the limit."""
    most: int
    scope: AccrueScope
    qos: str = ""
    account: str = ""
    """The QOS or the account that has the limit; the other is empty."""
    accounts: frozenset[str] = frozenset()
    """The accounts whose jobs count, if an account has the limit."""

    def describe_limit(self) -> str:
        where = f"QOS {self.qos}" if self.qos else f"account {self.account}"
        return f"at most {self.most} waiting jobs of {self.scope} in {where} earn age ({self.word})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccrueLimits:
    """The limits that are set, by Slurm's name."""

    qos: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    associations: Mapping[tuple[str, str], Mapping[str, int]] = field(default_factory=dict)
    """Limits by account and user. The user is empty for the account's own limits."""
    parents: Mapping[str, str] = field(default_factory=dict)

    def iter_applicable(self, *, qos: str, account: str, user: str) -> Iterator[AccrueLimit]:
        """Yield the limits that bind a job of this user in this account and QOS."""
        for word, most in self.qos.get(qos, {}).items():
            yield AccrueLimit(word=word, most=most, scope=_SCOPES[word], qos=qos)
        associations = [(account, user), *((name, "") for name in self._list_ancestors(account))]
        own_limits = [self.associations.get(name, {}).get("MaxJobsAccrue") for name in associations]
        # Users without a limit of their own have the account's.
        nearest = next((limit for limit in own_limits if limit is not None), None)
        if nearest is not None:
            yield AccrueLimit(
                word="MaxJobsAccrue",
                most=nearest,
                scope=AccrueScope.USER,
                account=account,
                accounts=frozenset({account}),
            )
        for name in self._list_ancestors(account):
            group = self.associations.get((name, ""), {}).get("GrpJobsAccrue")
            if group is not None:
                yield AccrueLimit(
                    word="GrpJobsAccrue",
                    most=group,
                    scope=AccrueScope.ALL,
                    account=name,
                    accounts=frozenset(self._list_descendants(name)),
                )

    def _list_ancestors(self, account: str) -> list[str]:
        """Return the account and the accounts above it."""
        ancestors = [account]
        while (parent := self.parents.get(ancestors[-1], "")) and parent not in ancestors:
            ancestors.append(parent)
        return ancestors

    def _list_descendants(self, account: str) -> list[str]:
        """Return the account and the accounts below it."""
        return [
            account,
            *(name for name in self.parents if account in self._list_ancestors(name)[1:]),
        ]


NO_LIMITS = AccrueLimits()


def build_show_qos_argv() -> list[str]:
    return ["sacctmgr", "-n", "-P", "show", "qos", f"format={','.join(_QOS)}"]


def build_show_associations_argv(cluster: str) -> list[str]:
    which = ["where", f"cluster={cluster}"]
    return ["sacctmgr", "-n", "-P", "show", "assoc", *which, f"format={','.join(_ASSOCIATION)}"]


def parse_accrue_limits(qos: str, associations: str) -> AccrueLimits:
    """Parse the answers of both commands. Raises MalformedText for an answer that was cut short.

    Coordinators choose names freely, and a name may look like a row. So rows of another form are
    left out, and so are all rows of a name that occurs twice.
    """
    by_qos = {row[0]: _parse_limits(_QOS[1:], row[1:]) for row in _split_rows(qos, len(_QOS), 1)}
    rows = _split_rows(associations, len(_ASSOCIATION), 2)
    return AccrueLimits(
        qos={name: limits for name, limits in by_qos.items() if limits},
        associations={
            (row[0], row[1]): limits
            for row in rows
            if (limits := _parse_limits(_ASSOCIATION[3:], row[3:]))
        },
        parents={row[0]: row[2] for row in rows if not row[1] and row[2]},
    )


def _split_rows(answer: str, width: int, keys: int) -> list[list[str]]:
    *lines, rest = answer.split("\n")
    if rest:
        raise MalformedText(f"sacctmgr's answer ends in the middle of a row: {rest[:80]!r}")
    rows = [cells for cells in (line.split("|") for line in lines) if len(cells) == width]
    counts = Counter(tuple(row[:keys]) for row in rows)
    return [row for row in rows if counts[tuple(row[:keys])] == 1]


def _parse_limits(words: Sequence[str], cells: Sequence[str]) -> dict[str, int]:
    pairs = zip(words, cells, strict=True)
    return {word: int(cell) for word, cell in pairs if cell.isascii() and cell.isdigit()}
