"""What is known of Slurm's releases."""

import pytest

from mirage.cli.doctor import slurm_checks
from mirage.slurm.text.releases import (
    TESTED_RELEASES,
    SlurmVersion,
    describe_untested,
    list_known_faults,
    parse_version,
)


@pytest.mark.parametrize(
    ("told", "release"),
    [
        ("22.05.8", (22, 5, 8)),
        ("slurm-wlm 24.11.5", (24, 11, 5)),
        ("24.11.5-4+deb13u1", (24, 11, 5)),
        ("slurm 26.05.0-0rc1", (26, 5, 0)),
        ("slurm 25.11", (25, 11, 0)),
        ("24.11.5.custom", (24, 11, 5)),
        ("24.11.5+deb13u1", (24, 11, 5)),
        ("24.11 of my own", (24, 11, 0)),
        ("25.05.9p1", (25, 5, 9)),
        ("24.11.5rc1", (24, 11, 5)),
        ("24.11.x", (24, 11, 0)),
        ("24.11.5\nfoo", None),
        ("24.11.5 \x1b[31m", None),
        ("24.111", None),
        ("24.11abc", None),
        ("24.1", None),
        ("", None),
        ("of my own", None),
    ],
)
def test_a_version_is_read(told: str, release: SlurmVersion | None) -> None:
    assert parse_version(told) == release


@pytest.mark.parametrize(
    ("release", "warned"),
    [
        ((22, 5, 8), True),
        ((24, 11, 6), True),
        ((25, 5, 8), True),
        ((25, 5, 9), False),
        ((25, 11, 7), True),
        ((25, 11, 8), False),
        ((26, 5, 3), True),
        ((26, 5, 4), False),
        ((26, 11, 0), False),
    ],
)
def test_an_operator_is_warned_where_the_fixes_are_not(
    release: SlurmVersion, *, warned: bool
) -> None:
    as_operator = [
        told for told in list_known_faults(release, is_operator=True) if "CVE-2026-65140" in told
    ]
    assert len(as_operator) == warned
    assert not any("CVE" in told for told in list_known_faults(release, is_operator=False))
    for told in as_operator:
        assert "alter Administrator accounts" in told
        assert "keep the old number" in told


@pytest.mark.parametrize(
    ("operator", "words"), [(True, "as this account is,"), (None, "as this account may be,")]
)
def test_nobody_is_called_an_operator_unasked(operator: bool | None, words: str) -> None:
    (said,) = list_known_faults((25, 11, 7), is_operator=operator)
    assert words in said


@pytest.mark.parametrize(
    ("words", "of", "without"),
    [
        ("arrays", [(25, 5, 0)], [(25, 5, 1), (24, 11, 0)]),
        ("--signal", [(24, 11, 0), (24, 11, 5)], [(24, 11, 6), (24, 5, 4), (25, 5, 0)]),
        ("node count", [(23, 11, 0), (23, 11, 1)], [(23, 11, 2), (23, 2, 0)]),
    ],
)
def test_a_releases_own_faults_are_told(
    words: str, of: list[SlurmVersion], without: list[SlurmVersion]
) -> None:
    for release in of:
        assert any(words in told for told in list_known_faults(release, is_operator=False))
    for release in without:
        assert not any(words in told for told in list_known_faults(release, is_operator=False))


def test_a_release_that_nobody_tried_is_told() -> None:
    assert all(describe_untested(release) == "" for release in TESTED_RELEASES)
    assert describe_untested((24, 11, 9)) == "", "of a series that was tried"
    assert "not tried on 25.05" in describe_untested((25, 5, 3))


@pytest.mark.parametrize(
    ("told", "tried"), [("26.05.4", "26.05.5"), ("24.11.9", "24.11.5"), ("26.05.5", "it")]
)
def test_another_release_of_a_series_is_not_the_one_that_was_tried(told: str, tried: str) -> None:
    (good,) = slurm_checks.check_release(told, operator=False)
    assert good.told == f"{told}: Mirage was tried on {tried}"
