"""Chooses the Slurm release whose backfill the simulator uses for plans
(docs/reference/simulator.md 7, "By release")."""

from enum import IntEnum
from typing import Final

from mirage.slurm.text.releases import parse_version


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


def find_release(version: str) -> SlurmRelease:
    """Find the newest release of the engine that is not newer than this version; if all are newer
    or the version is empty, the oldest. Raises ValueError for text without a version."""
    number = _compute_number(version)
    return max(
        (release for release in SlurmRelease if release <= number), default=SlurmRelease.V22_05
    )


def describe_planner(version: str) -> str:
    """Describe the release whose backfill plans, and whether it may differ from the site's."""
    release = find_release(version)
    if not version:
        return f"planned as Slurm {release}, for SLURM_VERSION is missing"
    if is_unchecked(version):
        return f"planned as Slurm {release}, not checked against {version}"
    return f"planned as Slurm {release}"


def is_unchecked(version: str) -> bool:
    """Return whether the release that plans was not compared with this version. An empty version
    may be any."""
    return _compute_number(version) != find_release(version)


def _compute_number(version: str) -> int:
    """Return a version's number as releases have it: 2411 for 24.11.5, 0 for an empty one."""
    if not version:
        return 0
    parsed = parse_version(version)
    if parsed is None:
        raise ValueError(f"{version!r} is not a version of Slurm")
    return 100 * parsed[0] + parsed[1]
