"""What a release changes in the files of a checkout, and why it refuses."""

from __future__ import annotations

import datetime
import hashlib
import re
from pathlib import Path

import pytest

from deploy import release
from tests.support.paths import CHECKOUT

ON = datetime.date(2026, 11, 26)
NEXT = release.Release("0.2.0", "0.1.0", ON)
CHANGELOG = """# Changelog

## Unreleased

These changes become 0.2.0. **To upgrade**: back up.

### Added

- More.

## 0.1.0

- All.
"""
RELEASED = """# Changelog

## Unreleased

## 0.2.0 - 2026-11-26

**To upgrade**: back up.

### Added

- More.

## 0.1.0

- All.
"""
NAMED = re.compile(r"\bmirage[_:](\d+\.\d+\.\d+)|\bmirage \((\d+\.\d+\.\d+)\+")


def test_what_was_unreleased_is_the_release_s_and_a_new_section_is_empty() -> None:
    assert release.with_section(CHANGELOG, NEXT) == RELEASED


def test_an_older_release_s_entries_are_none_of_this_one() -> None:
    with pytest.raises(release.NotReadyError, match="no entry under 'Unreleased': say there"):
        release.with_section(RELEASED, release.Release("0.3.0", "0.2.0", ON))


def test_a_changelog_without_its_section_is_refused() -> None:
    with pytest.raises(release.NotReadyError, match="no line '## Unreleased': add it"):
        release.with_section("# Changelog\n\n## 0.1.0\n\n- All.\n", NEXT)


def test_a_changelog_that_promises_another_version_is_refused() -> None:
    with pytest.raises(release.NotReadyError, match=r"run make release VERSION=0\.2\.0"):
        release.with_section(CHANGELOG, release.Release("0.3.0", "0.1.0", ON))


def test_the_project_has_the_new_version_and_no_other_line_is_touched() -> None:
    text = '"It was 0.1.0."\n\nVERSION = "0.1.0"\nOTHER = "0.1.0"\n'
    assert release.with_version(text, NEXT) == text.replace(
        'VERSION = "0.1.0"', 'VERSION = "0.2.0"'
    )


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9"])
def test_a_version_that_is_not_newer_is_refused(version: str) -> None:
    with pytest.raises(release.NotReadyError, match=r"not newer than 0\.1\.0"):
        release.with_version("", release.Release(version, "0.1.0", ON))


def test_versions_are_compared_as_numbers() -> None:
    assert '"0.10.0"' in release.with_version(
        '\nVERSION = "0.9.0"\n', release.Release("0.10.0", "0.9.0", ON)
    )


@pytest.mark.parametrize("version", ["v0.2.0", "0.2", "0.2.0rc1", "next"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(release.NotReadyError, match=r"give three numbers"):
        release.with_version("", release.Release(version, "0.1.0", ON))


def test_package_and_image_are_named_with_the_new_version_and_history_stays() -> None:
    old = "mirage_0.1.0+A.deb mirage:0.1.0 mirage-learn (0.1.0+B) since (0.1.0, not mirage_0.1.01"
    new = "mirage_0.2.0+A.deb mirage:0.2.0 mirage-learn (0.2.0+B) since (0.1.0, not mirage_0.1.01"
    assert release.with_names(old, NEXT) == new


def test_only_files_that_change_are_said() -> None:
    texts = {
        release.VERSION_FILE: '\nVERSION = "0.1.0"\n',
        "CHANGELOG.md": CHANGELOG,
        "deploy/container/compose.yaml": "image: localhost/mirage:0.1.0\n",
        "docs/admin/users.md": "No version here.\n",
        "docs/research/results.md": "localhost/mirage:0.1.0\n",
    }
    new = release.edit(texts, NEXT)
    assert set(new) == {release.VERSION_FILE, "CHANGELOG.md", "deploy/container/compose.yaml"}
    assert new["deploy/container/compose.yaml"] == "image: localhost/mirage:0.2.0\n"


def test_every_page_names_the_version_of_the_project() -> None:
    """Where one is left behind, the script does not reach it."""
    version = release.read_version((CHECKOUT / release.VERSION_FILE).read_text())
    pages = [CHECKOUT / "README.md"]
    for folder in ("deploy", "docs/admin", "docs/use", "docs/develop", "docs/reference"):
        pages += [p for end in ("md", "yml", "yaml") for p in (CHECKOUT / folder).rglob(f"*.{end}")]
    found = {page: NAMED.findall(page.read_text()) for page in pages}
    named = {page: {one or other for one, other in pairs} for page, pairs in found.items() if pairs}
    assert named
    assert {page: them for page, them in named.items() if them != {version}} == {}
    reached = {str(page.relative_to(CHECKOUT)): page.read_text() for page in named}
    assert {name for name, text in reached.items() if not release._SHOWING.match(name)} == set()


def test_checksums_are_lines_of_sha256sum_by_name() -> None:
    digest = hashlib.sha256(b"b").hexdigest()
    first, second = release.checksums({"z.whl": b"a", "a.deb": b"b"}).splitlines()
    assert first == f"{digest}  a.deb"
    assert second.endswith("  z.whl")


def test_a_release_that_goes_on_after_midnight_keeps_its_date(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    version = tmp_path / release.VERSION_FILE
    version.parent.mkdir(parents=True)
    version.write_text('\nVERSION = "0.1.0"\n')
    checkout = release.Checkout(tmp_path)
    for words in (
        ("init", "--quiet"),
        ("config", "user.name", "Nobody"),
        ("config", "user.email", "nobody@localhost"),
        ("add", "--all"),
        ("commit", "--quiet", "--message", "First"),
    ):
        checkout.git(*words)
    (tmp_path / "CHANGELOG.md").write_text(RELEASED)  # and then it stopped
    release.release(checkout, "0.2.0", on=ON + datetime.timedelta(days=1), dry_run=False)
    assert checkout.committed()["CHANGELOG.md"] == RELEASED
    assert checkout.changed() == set()
