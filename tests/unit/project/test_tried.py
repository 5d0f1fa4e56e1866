"""The table of releases is what was recorded, and doctor knows the same releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.slurm.text.releases import TESTED_RELEASES, format_release
from tests import tried


@pytest.mark.parametrize("page", tried.PAGES, ids=lambda page: page.name)
def test_the_pages_have_the_table_of_what_was_recorded(page: Path) -> None:
    text = page.read_text()
    assert text == tried.with_table(text, tried.table(tried.records())), "python -m tests.tried"


def test_doctor_knows_the_releases_that_were_tried() -> None:
    assert [format_release(release) for release in TESTED_RELEASES] == [
        one["slurm"] for one in tried.records()
    ]


def test_a_run_without_a_test_is_no_trial(tmp_path: Path) -> None:
    empty = tmp_path / "empty.xml"
    empty.write_text('<testsuites><testsuite tests="0" failures="0" errors="0"/></testsuites>')
    assert tried._counts([empty])["tests"] == 0
    some = tmp_path / "some.xml"
    some.write_text(
        '<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2">'
        '<testcase classname="tests.a"/><testcase classname="tests.a"/>'
        '<testcase classname="tests.b"/></testsuite></testsuites>'
    )
    counts = tried._counts([some, some])
    assert (counts["passed"], counts["modules"]) == (6, 2)


def test_a_page_without_its_marks_is_told() -> None:
    with pytest.raises(SystemExit, match="lost the marks"):
        tried.with_table("# A page\n", "")
