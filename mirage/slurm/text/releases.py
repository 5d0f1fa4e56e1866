"""Slurm's releases: how their versions read, those on which Mirage was tried, and known faults of
some."""

import re
from collections.abc import Iterator

SlurmVersion = tuple[int, int, int]
"""Year, month and number: 24.11.5 is (24, 11, 5)."""

TESTED_RELEASES: tuple[SlurmVersion, ...] = ((22, 5, 8), (24, 11, 5), (26, 5, 5))
"""Releases on which the tests that need a real Slurm were run. docs/admin/install.md has the
dates."""

# What follows the number is a packager's or a site's own: `-4+deb13u1`, `.custom`, a name.
_VERSION = re.compile(r"(?:^|\s)v?(\d\d)\.(\d\d)(?:\.(\d+)|(?=$|[\s.+~_-]))", re.ASCII)
_FIXED_RELEASES: tuple[SlurmVersion, ...] = ((25, 5, 9), (25, 11, 8), (26, 5, 4))
"""The first release of each series with the fixes of 2 September 2026. Later series have them from
the start."""
_CVE = (
    "it lacks the fixes of 2 September 2026. Without them an Operator, as this account {is_one}, "
    "can alter Administrator accounts (CVE-2026-65140). Upgrade to 25.05.9, 25.11.8 or 26.05.4, or "
    "make the account a coordinator instead (docs/admin/install.md). A distribution's package may "
    "have the fix and keep the old number: see its changelog"
)


def parse_version(text: str) -> SlurmVersion | None:
    """Parse the version in `slurm-wlm 22.05.8` or `24.11.5-4+deb13u1`; None for any other text,
    and for text with control characters."""
    match = _VERSION.search(text) if text.isprintable() else None
    return None if match is None else (int(match[1]), int(match[2]), int(match[3] or 0))


def list_known_faults(release: SlurmVersion, *, is_operator: bool | None) -> Iterator[str]:
    """Yield a sentence for each known fault. `operator`: whether the service's account is an
    Operator; None: not known."""
    if is_operator is not False and not _is_safe(release):
        yield _CVE.format(is_one="is" if is_operator else "may be")
    if release == (25, 5, 0):
        yield "job arrays that begin to earn age can crash slurmctld: upgrade to 25.05.1"
    if (24, 11, 0) <= release <= (24, 11, 5):
        yield (
            "the signal of --signal may end a job's extern step and the processes in it "
            "(pam_slurm_adopt): upgrade to 24.11.6"
        )
    if release in {(23, 11, 0), (23, 11, 1)}:
        yield (
            "a hold, as by `mirage chain pause`, changes the node count of jobs that name none: "
            "upgrade to 23.11.2"
        )


def describe_untested(release: SlurmVersion) -> str:
    """Return a sentence about a series on which Mirage was not tried; empty for a tried series."""
    if release[:2] in {tested[:2] for tested in TESTED_RELEASES}:
        return ""
    releases = ", ".join(map(format_release, TESTED_RELEASES))
    return f"Mirage was not tried on {format_series(release)}, only on {releases}"


def describe_tested_match(release: SlurmVersion) -> str:
    """Describe the tested releases that stand for this one: itself, or others of its series."""
    if release in TESTED_RELEASES:
        return "it"
    return ", ".join(
        format_release(tested) for tested in TESTED_RELEASES if tested[:2] == release[:2]
    )


def format_series(release: SlurmVersion) -> str:
    return f"{release[0]}.{release[1]:02}"


def format_release(release: SlurmVersion) -> str:
    return f"{format_series(release)}.{release[2]}"


def _is_safe(release: SlurmVersion) -> bool:
    fixes = [fix for fix in _FIXED_RELEASES if fix[:2] == release[:2]]
    return release >= fixes[0] if fixes else release > _FIXED_RELEASES[-1]
