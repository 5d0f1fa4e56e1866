"""The release of Slurm: from a site's answers into the cluster file, and what is said of it."""

from datetime import UTC

import pytest

from mirage.errors import ConfigError
from mirage.history.cluster_files.reader import parse_cluster_file
from mirage.history.cluster_files.writer import render_cluster_file
from mirage.history.site_import.params import convert_site
from mirage.simulator.slurm_release import describe_planner
from tests.support.cluster.site_texts import answers

LEAST = '[cluster]\nname = "lab"\nnodes = 8\n[scheduler]\n'


@pytest.mark.parametrize(
    ("told", "version", "note"),
    [
        ("24.11.5", "24.11.5", ""),
        ("26.05.0-0rc1", "26.05.0-0rc1", ""),
        ("25.05.2", "25.05.2", "planned as Slurm 24.11, not checked against 25.05.2"),
        ("21.08.8-2", "21.08.8-2", "planned as Slurm 22.05, not checked against 21.08.8-2"),
        ("26.11.0", "26.11.0", "planned as Slurm 26.05, not checked against 26.11.0"),
        ("24.11.5 of our site", "24.11.5 of our site", ""),
        ("slurm-wlm 24.11.5", "slurm-wlm 24.11.5", ""),
        (
            "a fork",
            "",
            "not a version of Slurm that Mirage can read, and so not in the cluster file; "
            "planned as Slurm 22.05",
        ),
    ],
)
def test_the_release_is_imported_and_what_was_not_checked_is_said(
    told: str, version: str, note: str
) -> None:
    site = convert_site(answers(SLURM_VERSION=told), UTC)
    assert site.params.slurm_version == version
    assert [n for n in site.notes if "SLURM_VERSION" in n] == (
        [f"SLURM_VERSION = {told}: {note}."] if note else []
    )
    written = render_cluster_file(site.params, site.notes)
    read = parse_cluster_file(written, "C.toml")
    assert read.params == site.params
    assert [w for w in read.warnings if "SLURM_VERSION" in w] == (
        [f"SLURM_VERSION: {describe_planner(version)}"] if note else []
    )


def test_a_file_without_a_version_plans_as_before_and_says_so() -> None:
    for text in (LEAST, LEAST + 'SLURM_VERSION = ""\n'):
        read = parse_cluster_file(text, "C.toml")
        assert read.params.slurm_version == ""
        assert read.warnings == (f"SLURM_VERSION: {describe_planner('')}",)
    assert "SLURM_VERSION" not in render_cluster_file(read.params)


@pytest.mark.parametrize("value", ['"newest"', "24.11", '"24"', "true"])
def test_what_is_no_release_is_a_fault(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cluster_file(f"{LEAST}SLURM_VERSION = {value}\n", "C.toml")
    (fault,) = caught.value.faults
    assert "[scheduler] SLURM_VERSION" in fault
