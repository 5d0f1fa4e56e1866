"""scontrol: the moves of a standby, and the facts of the site."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mirage.domain.job import JobId
from mirage.errors import MalformedText
from mirage.slurm.text.dependency import normalize_dependency

_CONFIG_LINE = re.compile(r"(?P<key>[A-Za-z]\S*)\s*= ?(?P<value>.*)")
_SEPARATORS = re.compile(r"[,\s]+")
_WEIGHT = "PriorityWeight"
_UNSET = "(null)"
_LEAST_KEYS = 50
"""`show config` has some 180 keys; fewer than this is half an answer."""


def build_free_argv(job_id: JobId, dependency: str, *, unpin: bool) -> list[str]:
    """Build the command that makes a job eligible anywhere once `dependency`, the user's own part,
    is met."""
    return _build_update_argv(job_id, dependency, "" if unpin else None)


def build_pin_argv(job_id: JobId, dependency: str, node_list: str) -> list[str]:
    """Build the command that makes a job eligible on `node_list` alone."""
    return _build_update_argv(job_id, dependency, node_list)


def build_set_dependency_argv(job_id: JobId, dependency: str, *, unpin: bool) -> list[str]:
    """Build the command that sets the job's dependency again.

    If slurmctld no longer knows the predecessor, it drops the term and answers 0 (seen on 22.05.8).
    The job is then eligible, as if the dependency had been there all the time and had been met.
    """
    return _build_update_argv(job_id, dependency, "" if unpin else None)


def build_uhold_argv(job_id: JobId) -> list[str]:
    """Build the command for a hold that the job's owner can lift. The owner cannot lift an
    Operator's `scontrol hold`."""
    return ["scontrol", "uhold", str(job_id)]


def build_release_argv(job_id: JobId) -> list[str]:
    return ["scontrol", "release", str(job_id)]


_NO_SUCH_RESERVATION = "Requested reservation is invalid"
_NO_OPERATOR = re.compile(r"Invalid user id|permission denied", re.IGNORECASE)


def build_operator_probe_argv() -> list[str]:
    """Build an update of a reservation that does not exist. slurmctld first checks that the caller
    is an Operator, then looks for the reservation. So the error tells which of the two failed."""
    return ["scontrol", "update", "ReservationName=mirage_is_not_there", "Duration=1"]


def parse_operator_probe(message: str) -> bool | None:
    """Return whether the probe's answer shows an Operator; None if it does not tell."""
    if _NO_SUCH_RESERVATION in message:
        return True
    return False if _NO_OPERATOR.search(message) else None


def build_show_config_argv() -> list[str]:
    return ["scontrol", "show", "config"]


def _build_update_argv(job_id: JobId, dependency: str, node_list: str | None) -> list[str]:
    nodes = [] if node_list is None else [f"ReqNodeList={node_list}"]
    return [
        "scontrol",
        "update",
        f"JobId={job_id}",
        f"Dependency={normalize_dependency(dependency)}",
        *nodes,
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteConfig:
    """The parts of slurm.conf that decide how a standby ages and what accounting keeps."""

    version: str
    cluster_name: str
    priority_type: str
    priority_flags: frozenset[str]
    weights: Mapping[str, int]
    """Priority weights by factor, in lower case: age, fairshare, jobsize, partition, qos, assoc."""
    accounting: bool
    store_flags: frozenset[str]
    private_data: frozenset[str]
    slurm_user: str = ""
    """The user that may do everything, as root may."""

    @property
    def accrues_always(self) -> bool:
        """True if age counts from submission, also for held and dependent jobs."""
        return "ACCRUE_ALWAYS" in self.priority_flags

    @property
    def age_counts(self) -> bool:
        """True if age counts. slurmctld ignores it without slurmdbd."""
        is_multifactor = self.priority_type == "priority/multifactor"
        return is_multifactor and self.accounting and self.weights.get("age", 0) > 0

    @property
    def keeps_comments(self) -> bool:
        """True if sacct can tell links by their comments."""
        return self.accounting and "job_comment" in self.store_flags


def parse_config(answer: str) -> dict[str, str]:
    """Parse `show config` by key. Unset values are empty."""
    values: dict[str, str] = {}
    for line in answer.splitlines():
        match = _CONFIG_LINE.fullmatch(line)
        if match is not None:
            value = match["value"].strip()
            values.setdefault(match["key"], "" if value == _UNSET else value)
    if len(values) < _LEAST_KEYS or "SLURM_VERSION" not in values:
        raise MalformedText(f"not scontrol's show config: {answer[:80]!r}")
    return values


def parse_site_config(answer: str) -> SiteConfig:
    values = parse_config(answer)
    weights = {
        key.removeprefix(_WEIGHT).lower(): int(value)
        for key, value in values.items()
        if key.startswith(_WEIGHT) and value.isdigit()
    }
    return SiteConfig(
        version=values["SLURM_VERSION"],
        cluster_name=values.get("ClusterName", ""),
        priority_type=values.get("PriorityType", ""),
        priority_flags=_parse_flags(values.get("PriorityFlags", "")),
        weights=weights,
        accounting=values.get("AccountingStorageType", "").endswith("/slurmdbd"),
        store_flags=_parse_flags(values.get("AccountingStoreFlags", "").lower()),
        private_data=_parse_flags(values.get("PrivateData", "")),
        slurm_user=values.get("SlurmUser", "").partition("(")[0],
    )


def _parse_flags(text: str) -> frozenset[str]:
    return frozenset(_SEPARATORS.split(text)) - {"", "none"}
