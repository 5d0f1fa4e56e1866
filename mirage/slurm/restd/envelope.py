"""slurmrestd's JSON: the envelope of an answer, and the values that its releases write differently.

From v0.0.40 on an HTTP 200 with empty `errors` may still be a refusal: the result for each job is
in `status` after a cancel, in `results` after an update.

v0.0.38 (Slurm 22.05) writes a number, or null if there is none. From v0.0.39 on most numbers are
triples `{"set": true, "infinite": false, "number": 60}`, and from v0.0.40 on a job's state is a
list (Slurm's OpenAPI release notes). The parsers take all forms, whatever the version: the form of
the value is enough to tell.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mirage.domain.job import JobId
from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.slurm.text.unread_rows import UnreadRow, quote_cell

Payload = Mapping[str, Any]
"""A JSON object. Only the parser of its answer uses it."""

EARLIEST = "v0.0.38"
"""The version of Slurm 22.05: numbers are plain, and keys are sbatch's options."""
TESTED_VERSIONS = tuple(f"v0.0.{n}" for n in (45, 44, 43, 42, 41, 40, 38))
"""Versions that were tried on a real slurmrestd (docs/admin/slurmrestd.md), the newest first."""
UNTESTED_VERSIONS = ("v0.0.46", "v0.0.39")
"""Versions known only from their documents, used if a slurmrestd serves no tried version."""
SUPPORTED_VERSIONS = TESTED_VERSIONS + UNTESTED_VERSIONS

_NO_VALUE = 0xFFFFFFFE
"""Slurm's NO_VAL. INFINITE is greater by one."""
ALREADY_DONE = 2021
"""The error for cancelling a job that is over, which Mirage ignores (ESLURM_ALREADY_DONE)."""
_VAGUE_TEXTS = frozenset({"", "Unspecified error"})
_NUMBER_KEYS = ("error_number", "error_code", "code")
_TEXT_KEYS = ("error", "string", "message")
_PATH = re.compile(r"/(?P<daemon>slurm|slurmdb)/(?P<version>v\d+\.\d+\.\d+)/(?P<rest>.*?)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The dialect that a slurmrestd speaks, read from its own OpenAPI document."""

    version: str
    accounting: bool
    """Whether it serves /slurmdb of this version."""
    record_queries: frozenset[str]
    """The query parameters that /slurmdb takes for jobs."""

    @property
    def has_triples(self) -> bool:
        """True if slurmrestd takes numbers as triples, and lists where v0.0.38 takes text."""
        return self.version != EARLIEST

    @property
    def is_tested(self) -> bool:
        return self.version in TESTED_VERSIONS


def choose_dialect(openapi: Any) -> Dialect:
    """Choose the newest tested version that slurmrestd serves, otherwise an untested one.

    Raises MalformedText if there is none.
    """
    paths = {
        path: _PATH.fullmatch(path) for path in expect_mapping(expect_mapping(openapi).get("paths"))
    }
    served = {m["version"] for m in paths.values() if m and m["daemon"] == "slurm"}
    version = next((v for v in SUPPORTED_VERSIONS if v in served), None)
    if version is None:
        raise MalformedText(
            f"slurmrestd serves {', '.join(sorted(served)) or 'no Slurm API'} and Mirage reads "
            f"{min(SUPPORTED_VERSIONS)} to {max(SUPPORTED_VERSIONS)}: "
            "start it with -d (22.05: -s) naming one of these"
        )
    records = [
        path
        for path, m in paths.items()
        if m and (m["daemon"], m["version"], m["rest"]) == ("slurmdb", version, "jobs")
    ]
    queries = [q for path in records for q in _iter_query_names(openapi["paths"][path])]
    return Dialect(version=version, accounting=bool(records), record_queries=frozenset(queries))


def _iter_query_names(path: Any) -> Iterable[str]:
    for parameter in expect_mapping(expect_mapping(path).get("get")).get("parameters") or ():
        name = expect_mapping(parameter).get("name")
        if isinstance(name, str):
            yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedError:
    """One error of an answer."""

    number: int | None
    error: str
    """Slurm's own text for the number."""
    description: str
    """What slurmrestd was doing. The text may hold the path of its socket, so it is never
    interpreted."""

    def __str__(self) -> str:
        if self.error in _VAGUE_TEXTS:
            number_text = "" if self.number is None else f"error {self.number}"
            return self.description or self.error or number_text
        return self.error


def list_errors(answer: Any) -> list[ReportedError]:
    """List the errors of an answer. Raises MalformedText if it is no answer."""
    payload = expect_mapping(answer)
    return [_parse_error(expect_mapping(error)) for error in expect_list(payload.get("errors"))] + [
        result for error in _iter_job_results(payload) if (result := _parse_error(error)).number
    ]


def _iter_job_results(payload: Payload) -> Iterator[Payload]:
    """Iterate over the result for each job that a move was for: error 0 is a success."""
    for item in expect_list(payload.get("status")):
        yield expect_mapping(expect_mapping(item).get("error"))
    for item in expect_list(payload.get("results")):
        yield expect_mapping(item)


def _parse_error(payload: Payload) -> ReportedError:
    return ReportedError(
        number=next((n for key in _NUMBER_KEYS if isinstance(n := payload.get(key), int)), None),
        error=next((text for key in _TEXT_KEYS if (text := parse_text(payload.get(key)))), ""),
        description=parse_text(payload.get("description")) or parse_text(payload.get("why")),
    )


def expect_mapping(value: Any) -> Payload:
    """Return the JSON object; None (absent) gives an empty one. Raises MalformedText."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedText(f"not an object: {str(value)[:80]!r}")
    return value


def expect_list(value: Any) -> list[Any]:
    """Return the JSON list; None (absent) gives an empty one. Raises MalformedText."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedText(f"not a list: {str(value)[:80]!r}")
    return value


def require_objects(answer: Any, key: str) -> list[Payload]:
    """Return the objects in the list under `key`. Raises MalformedText if the key is missing."""
    return [expect_mapping(value) for value in require_items(answer, key)]


def require_items(answer: Any, key: str) -> list[Any]:
    """Return the list under `key`, with items of any kind.

    A complete answer has the key even if the list is empty. Raises MalformedText if the key is
    missing.
    """
    if key not in expect_mapping(answer):
        raise MalformedText(f"no {key!r} in the answer: half an answer")
    return expect_list(answer[key])


def name_unread_job(
    record_kind: str, find_leader: Callable[[Payload], JobId | None], value: Any
) -> UnreadRow:
    """Name an unread record by its job. A component is named by its leader, since the leader's job
    is incomplete without it."""
    payload = value if isinstance(value, Mapping) else {}
    job_id, uid = (
        _try_parse_number(payload.get("job_id")),
        _try_parse_number(payload.get("user_id")),
    )
    name = f"{record_kind} {quote_cell(payload.get('job_id'))}"
    try:
        leader = find_leader(payload)
    except MalformedText:
        leader = None
    # Accounting's records carry user names and no uids.
    user = payload.get("user")
    return UnreadRow(
        name,
        job_id=leader or (None if job_id is None else JobId(job_id)),
        uid=uid,
        user=user if isinstance(user, str) else "",
    )


def _try_parse_number(value: Any) -> int | None:
    try:
        return parse_number(value)
    except MalformedText:
        return None


def parse_text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedText(f"not text: {str(value)[:80]!r}")
    # JSON can escape halves of characters, and NUL, which no database takes.
    return (
        value if value.isprintable() else value.encode(errors="replace").decode().replace("\0", "")
    )


def parse_number(value: Any) -> int | None:
    """Parse a count or an id; None: it is not set, or infinite."""
    if isinstance(value, Mapping):
        if value.get("infinite") or not value.get("set"):
            return None
        value = value.get("number")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedText(f"not a number: {str(value)[:80]!r}")
    return value if 0 <= value < _NO_VALUE else None


def require_number(payload: Payload, key: str) -> int:
    """Return a required number. Raises MalformedText if it is not set."""
    number = parse_number(payload.get(key))
    if number is None:
        raise MalformedText(f"{key!r} is not set")
    return number


def parse_instant(value: Any) -> int | None:
    """Parse epoch seconds; None for 0, which is Slurm's "not yet"."""
    return parse_number(value) or None


def parse_limit_s(value: Any) -> int | None:
    """Convert Slurm's minutes to seconds. "No limit" is null in v0.0.38, and an infinite triple in
    later versions; both give `UNLIMITED`. None: the limit is not set."""
    has_no_limit = value is None or (isinstance(value, Mapping) and bool(value.get("infinite")))
    if has_no_limit:
        return UNLIMITED
    minutes = parse_number(value)
    return None if minutes is None else minutes * MINUTE_S


def parse_words(value: Any) -> tuple[str, ...]:
    """Parse a text, or a list of texts, to a tuple of words in upper case; empty: no word."""
    words = [value] if isinstance(value, str) else expect_list(value)
    return tuple(parse_text(word).upper() for word in words if word)
