"""Dependency lists: removes and adds Mirage's own part, and leaves the user's part as it is.

squeue prints `afterany:12(unfulfilled),afterok:13(failed)`; scontrol takes the same list without
the remarks in brackets. With `,` all terms must be met, with `?` any one of them. A list has only
one of the two separators.

Mirage's own part is `afterany:P`, or the plan `afterany:P?after:P+N`: the standby is eligible when
P ends or N minutes after P started, whichever is first. A plan cannot be combined with terms of the
user: the plan needs `?`, and the user's terms need `,`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import InputError, JobChanged, MalformedText

MOST_MINUTES = (2**31 - 1) // 60
"""The longest delay in minutes. Slurm counts it in seconds, and a longer one overflows to another
instant."""

_REMARK = re.compile(r"\([a-zA-Z ]*\)")
_TERM = re.compile(
    r"(?P<type>[a-z]+)(?::(?P<jobs>\d+(?:_(?:\d+|\*))?(?:\+\d+)?(?::\S+)?))?", re.ASCII
)
_ONE_JOB = re.compile(r"(?P<type>[a-z]+):(?P<job>\d{1,18})(?:\+(?P<minutes>\d{1,8}))?", re.ASCII)
_SINGLETON = "singleton"


def normalize_dependency(dependency: str) -> str:
    """Return the list as scontrol takes it: one job in each term, without Slurm's remarks."""
    separator = "?" if "?" in dependency else ","
    return separator.join(_split_terms(dependency, separator))


def has_own_term(dependency: str, predecessor: JobId) -> bool:
    """Return whether Mirage's own term for `predecessor` is in the list."""
    return _format_own_term(predecessor) in normalize_dependency(dependency).replace(
        "?", ","
    ).split(",")


def check_unchanged(job_id: JobId, dependency: str, expected: str | None) -> None:
    """Raise JobChanged if the job's list is not the expected one. Slurm's remarks do not count.

    `expected` None: nothing is compared. Neither list has to be readable.
    """
    if expected is not None and _strip_remarks(dependency) != _strip_remarks(expected):
        raise JobChanged(
            f"job {job_id} is not moved: its dependency was {expected!r} at the look and is now "
            f"{dependency!r}; Mirage decides again at the next tick"
        )


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """A planned release: eligible when the predecessor ends, or `minutes` after it started."""

    predecessor: JobId
    minutes: int


def parse_plan(dependency: str) -> ReleasePlan | None:
    """Parse a planned release; None: the list is no plan, or cannot be parsed."""
    try:
        terms = sorted(_split_terms(dependency, "?")) if dependency.count("?") == 1 else []
    except MalformedText:
        return None
    after, end = [_ONE_JOB.fullmatch(term) for term in terms] or (None, None)
    if after is None or end is None or (after["type"], end["type"]) != ("after", "afterany"):
        return None
    if after["job"] != end["job"] or end["minutes"] is not None:
        return None
    return ReleasePlan(JobId(int(end["job"])), int(after["minutes"] or 0))


def find_plan_minutes(dependency: str, predecessor: JobId) -> int | None:
    """Return the minutes of a planned release after this predecessor; None: the list is no such
    plan."""
    plan = parse_plan(dependency)
    return plan.minutes if plan is not None and plan.predecessor == predecessor else None


def replace_with_plan(dependency: str, predecessor: JobId, minutes: int) -> str:
    """Return the list with a planned release as Mirage's own part.

    Raises InputError if the list cannot hold a plan (`can_take_plan`), or if `minutes` is out of
    range.
    """
    if not 0 < minutes <= MOST_MINUTES:
        raise InputError(
            f"a planned release is 1 to {MOST_MINUTES} minutes after a start, not {minutes}"
        )
    if not can_take_plan(dependency, predecessor):
        raise InputError(
            f"dependency {normalize_dependency(dependency)!r} has terms of the job's owner: "
            f"Slurm takes no planned release after {predecessor} beside them"
        )
    return f"{_format_own_term(predecessor)}?after:{predecessor}+{minutes}"


def can_take_plan(dependency: str, predecessor: JobId) -> bool:
    """Return whether the list has no terms of the job's owner, so that it can hold a plan.

    A list that cannot be parsed counts as the owner's.
    """
    if find_plan_minutes(dependency, predecessor) is not None:
        return True
    return _strip_remarks(dependency) in {"", _format_own_term(predecessor)}


def remove_own_term(dependency: str, predecessor: JobId) -> str:
    """Return the user's part of the list. Without Mirage's term the whole list is the user's.

    Raises InputError for a list with `?`, of which one term is enough.
    """
    if find_plan_minutes(dependency, predecessor) is not None:
        return ""
    if not has_own_term(dependency, predecessor):
        return normalize_dependency(dependency)
    if "?" in dependency:
        raise InputError(
            f"dependency {normalize_dependency(dependency)!r} is met by any of its terms: "
            f"without {_format_own_term(predecessor)} it would mean something else, so Mirage "
            "leaves it alone"
        )
    own = _format_own_term(predecessor)
    return ",".join(term for term in _split_terms(dependency, ",") if term != own)


def add_own_term(dependency: str, predecessor: JobId) -> str:
    """Return the list with Mirage's own term first, and without a planned release.

    Raises InputError for a list with `?`, of which one term is enough.
    """
    if find_plan_minutes(dependency, predecessor) is not None:
        return _format_own_term(predecessor)
    if has_own_term(dependency, predecessor):
        return normalize_dependency(dependency)
    if "?" in dependency:
        raise InputError(
            f"dependency {normalize_dependency(dependency)!r} is met by any of its terms: "
            f"{_format_own_term(predecessor)} cannot be added to it"
        )
    return ",".join([_format_own_term(predecessor), *_split_terms(dependency, ",")])


def has_singleton(dependency: str) -> bool:
    """Return whether `singleton` must be met. Slurm then starts no second job of the same name, so
    such a standby can never start early.

    False for a list with `?`, in which another term may be met instead, and for an unreadable list.
    """
    return _SINGLETON in _strip_remarks(dependency).split(",")


def list_required_terms(dependency: str) -> tuple["Term", ...]:
    """Return the terms that all have to be met. Empty for a list with `?`, which Mirage leaves as
    it is."""
    return () if "?" in dependency else parse_all_terms(dependency)


def parse_all_terms(dependency: str) -> tuple["Term", ...]:
    """Parse all terms, also of a list with `?`. Raises MalformedText."""
    separator = "?" if "?" in dependency else ","
    return tuple(Term(term) for term in _split_terms(dependency, separator))


def join_terms(terms: Iterable["Term"]) -> str:
    return ",".join(term.text for term in terms)


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a list, such as `afterok:12`."""

    text: str

    @property
    def job_id(self) -> JobId | None:
        """The job of the term; None for tasks of an array, and for terms that name no job."""
        match = _ONE_JOB.fullmatch(self.text)
        return None if match is None else JobId(int(match["job"]))

    @property
    def kind(self) -> str:
        """The kind of the term, such as `afterok`."""
        return self.text.partition(":")[0]

    @property
    def minutes(self) -> int:
        """The minutes after its job's start at which the term is met (`after:12+30`)."""
        match = _ONE_JOB.fullmatch(self.text)
        return 0 if match is None else int(match["minutes"] or 0)

    def is_met(self, job: Job, now: int) -> bool | None:
        """Return whether `job`, accounting's record of the term's job, meets the term at `now`.

        Used when slurmctld no longer knows the job. None: the record does not decide it.
        """
        match = _ONE_JOB.fullmatch(self.text)
        if match is None or not job.state.has_ended or job.state is JobState.REQUEUED:
            return None
        if match["type"] == "afterany":
            return True
        if match["type"] == "after":
            return (job.start or 0) + 60 * self.minutes <= now or None
        if match["type"] in {"afterok", "afternotok"}:
            return (job.state is JobState.COMPLETED) == (match["type"] == "afterok")
        return None


def _format_own_term(predecessor: JobId) -> str:
    return f"afterany:{predecessor}"


def _strip_remarks(dependency: str) -> str:
    """Return the list without Slurm's remarks. `(null)` looks like a remark, so it gives an empty
    list."""
    return _REMARK.sub("", dependency).strip()


def _split_terms(dependency: str, separator: str) -> Sequence[str]:
    plain = _strip_remarks(dependency)
    terms: list[str] = []
    for part in plain.split(separator) if plain else ():
        match = _TERM.fullmatch(part)
        if match is None or (match["jobs"] is None) != (match["type"] == _SINGLETON):
            raise MalformedText(f"not a dependency list: {dependency!r}")
        # sbatch takes several jobs in a term, `afterok:1:2`; squeue prints one in each.
        jobs = match["jobs"].split(":") if match["jobs"] else []
        terms += [f"{match['type']}:{job}" for job in jobs] or [match["type"]]
    return terms
