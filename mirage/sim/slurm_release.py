"""Chooses the Slurm release whose backfill the simulator uses for plans
(docs/reference/simulator.md 7, "By release")."""

import re
from enum import IntEnum
from typing import Final

_VERSION = re.compile(r"(\d{2})\.(\d{2})(?:\.\d+)?(?:-\S+)?", re.ASCII)


class SlurmRelease(IntEnum):
    """A release whose backfill the engine has. Tests compared each with its slurmctld."""

    V22_05 = 2205
    V24_11 = 2411
    V26_05 = 2605

    def __str__(self) -> str:
        return f"{self // 100}.{self % 100:02}"


V24_11: Final = int(SlurmRelease.V24_11)
V26_05: Final = int(SlurmRelease.V26_05)
"""The releases as plain integers, since kernels cannot use enumerations."""


def is_version(version: str) -> bool:
    """Return whether the text is a release of Slurm: `24.11.5`, `26.05.0-0rc1`."""
    return _VERSION.fullmatch(version) is not None


def find_release(version: str) -> SlurmRelease:
    """Find the newest release of the engine that is not newer than this one; if all are newer, the
    oldest."""
    number = _parse_number(version) or 0
    return max((one for one in SlurmRelease if one <= number), default=SlurmRelease.V22_05)


def describe_planner(version: str) -> str:
    """Describe the release whose backfill plans. Says also whether that release may differ from the
    site's."""
    release = find_release(version)
    if not version:
        return f"planned as Slurm {release}, for SLURM_VERSION is missing"
    if is_unchecked(version):
        return f"planned as Slurm {release}, not checked against {version}"
    return f"planned as Slurm {release}"


def is_unchecked(version: str) -> bool:
    """Return whether this release has not been compared with the one that plans for it."""
    return bool(version) and _parse_number(version) != find_release(version)


def _parse_number(version: str) -> int | None:
    found = _VERSION.fullmatch(version)
    return int(found[1] + found[2]) if found else None
