"""sdiag: the RPCs that slurmctld has served, by user."""

import re
from dataclasses import dataclass
from itertools import takewhile

from mirage.errors import MalformedText

_TAKEN_AT = re.compile(r"^sdiag output at .*\((\d+)\)$", re.MULTILINE)
_SINCE = re.compile(r"^Data since .*\((\d+)\)$", re.MULTILINE)
_BY_USER = "Remote Procedure Call statistics by user\n"
_USER = re.compile(r"\s*(\S+)\s*\(\s*(\d+)\)\s*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCalls:
    """The RPCs of one user."""

    user: str
    calls: int
    us: int
    """Microseconds that slurmctld took for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """slurmctld's count of RPCs. It begins anew at midnight, at slurmctld's start and at a
    reset."""

    at: int
    since: int | None
    """When the count began; None: when slurmctld started."""
    users: tuple[UserCalls, ...]


def build_argv() -> list[str]:
    return ["sdiag"]


def parse_diagnosis(answer: str) -> Diagnosis:
    taken_at, since = _TAKEN_AT.search(answer), _SINCE.search(answer)
    _, heading, rest = answer.partition(_BY_USER)
    if taken_at is None or since is None or not heading:
        raise MalformedText("no instants, or no statistics by user")
    lines = takewhile(str.strip, rest.splitlines())
    return Diagnosis(
        at=int(taken_at[1]),
        since=int(since[1]) or None,
        users=tuple(_parse_user_calls(line) for line in lines),
    )


def _parse_user_calls(line: str) -> UserCalls:
    match = _USER.fullmatch(line.rstrip())
    if match is None:
        raise MalformedText(f"not the calls of a user: {line[:80]!r}")
    return UserCalls(user=match[1], calls=int(match[3]), us=int(match[4]))
