"""Reads the settings of a chain from one of the chain's jobs, as far as the job shows them.

A comment may hold the settings that `sbatch --comment=mirage:chain=9,never-overlap` takes, beside
the mark that makes the job a link. The submit line may hold the options that the SPANK plugin adds
to sbatch. The owner of the chain writes both, so both are trusted for this chain. A value that
cannot be parsed is ignored.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mirage.domain.chain import ChainMode, Planner, Presubmit, Style
from mirage.domain.job import Job
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import MalformedText

_MOST_S = 3650 * 86400
_MOST_PRICE = 100.0
_NEVER_OVERLAP = "never-overlap"
_SETTINGS_WORD = re.compile(
    r"(?:^|\s)mirage:(?P<items>(?:[a-z-]+=\S*|never-overlap(?:,\S*)?))(?=\s|$)"
)
_OPTION = re.compile(r"(?:^|\s)[\"']?--mirage-(?P<item>[a-z-]+(?:=[^\s\"']*)?)")
_POLICY = re.compile(r"[A-Za-z0-9._@/+-]{1,80}")
_COUNT = re.compile(r"\d", re.ASCII)
_PRICE = re.compile(r"\d{1,3}(?:\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """The settings of a chain, as one of its jobs shows them; None: the job does not show it."""

    style: Style | None = None
    max_overlap_s: int | None = None
    mode: ChainMode | None = None
    presubmit: Presubmit | None = None
    policy: str | None = None
    overlap_price: float | None = None
    total_s: int | None = None
    min_runtime_s: int | None = None
    max_returns: int | None = None
    alone: bool = False
    """Whether no service is to follow the chain, so that its links plan by themselves."""


def parse_chain_settings(job: Job) -> ChainSettings:
    """Parse the settings in the job's comment and, where the comment has none, its submit line."""
    settings = dict(_parse_submit_line(job.submit_line)) | dict(_parse_comment(job.comment))
    if _NEVER_OVERLAP in settings:
        settings["max-overlap"] = "0"
    values: Mapping[str, Any] = {
        field: parse(settings[name])
        for name, (field, parse) in _FIELD_PARSERS.items()
        if name in settings
    }
    return ChainSettings(**values)


def infer_planner(job: Job) -> Planner:
    """Infer who planned a release that stood in Slurm when the job was first seen.

    The running link wrote that release. It used its user's lead, the service's answer, or its own
    forecast, and the standby's comment says which of the three.
    """
    settings = dict(_parse_comment(job.comment))
    if "lead" in settings:
        return Planner.USER
    return Planner.SERVICE if settings.get("planned-by") == Planner.SERVICE else Planner.LINK


def _parse_comment(comment: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the comment's first word that holds settings. The wrapped sbatch reads
    the same word."""
    match = _SETTINGS_WORD.search(comment)
    if match is not None:
        yield from (_split_item(item) for item in match["items"].split(","))


def _parse_submit_line(line: str) -> Iterator[tuple[str, str]]:
    return (_split_item(match["item"]) for match in _OPTION.finditer(line))


def _split_item(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return name, value


def _parse_seconds(text: str) -> int | None:
    try:
        seconds = parse_time_limit(text)
    except MalformedText:
        return None
    return None if seconds is None or seconds == UNLIMITED or seconds > _MOST_S else seconds


def _parse_price(text: str) -> float | None:
    price = float(text) if _PRICE.fullmatch(text) else None
    return price if price is not None and price <= _MOST_PRICE else None


def _parse_returns(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _parse_policy(text: str) -> str | None:
    return text if _POLICY.fullmatch(text) else None


def _build_enum_parser(enum: type[Style | ChainMode | Presubmit]) -> Callable[[str], Any]:
    members = {member.value: member for member in enum}
    return members.get


_FIELD_PARSERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "style": ("style", _build_enum_parser(Style)),
    "max-overlap": ("max_overlap_s", _parse_seconds),
    "mode": ("mode", _build_enum_parser(ChainMode)),
    "presubmit": ("presubmit", _build_enum_parser(Presubmit)),
    "policy": ("policy", _parse_policy),
    "overlap-price": ("overlap_price", _parse_price),
    "total": ("total_s", _parse_seconds),
    "min-runtime": ("min_runtime_s", _parse_seconds),
    "returns": ("max_returns", _parse_returns),
    "service": ("alone", "none".__eq__),
}
