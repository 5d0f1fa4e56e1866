"""Which release's backfill the simulator plans with (docs/simulator.md 7, "By release")."""

import re
from enum import IntEnum
from typing import Final

_VERSION = re.compile(r"(\d{2})\.(\d{2})(?![\d])\S*", re.ASCII)


class Release(IntEnum):
    """A release whose backfill the engine has, checked against its slurmctld."""

    V22_05 = 2205
    V24_11 = 2411
    V26_05 = 2605

    def __str__(self) -> str:
        return f"{self // 100}.{self % 100:02}"


V24_11: Final = int(Release.V24_11)
V26_05: Final = int(Release.V26_05)
"""For kernels, which know no enumerations."""


def is_version(version: str) -> bool:
    """Whether the text is a release of Slurm: `24.11.5`, `26.05.0-0rc1`."""
    return _VERSION.fullmatch(version) is not None


def release_of(version: str) -> Release:
    """The nearest older release that the engine has, the oldest of all where there is none."""
    number = _number(version)
    return max((one for one in Release if one <= number), default=Release.V22_05)


def said_of(version: str) -> str:
    """A sentence where nobody has checked that this very release plans so; else empty."""
    release = release_of(version)
    if not version:
        return f"SLURM_VERSION is missing: planned as Slurm {release} does."
    if _number(version) == release:
        return ""
    return f"SLURM_VERSION {version}: planned as Slurm {release} does, which was not checked."


def _number(version: str) -> int:
    found = _VERSION.fullmatch(version)
    return int(found[1] + found[2]) if found else Release.V22_05
