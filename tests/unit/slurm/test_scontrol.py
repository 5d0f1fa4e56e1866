"""The moves as scontrol takes them, and the facts it tells."""

import pytest

from mirage.domain.job import JobId
from mirage.errors import MalformedText
from mirage.slurm.commands import sbatch, scancel, scontrol
from tests.support.slurm.captured import Captures, answer

JOB = JobId(7)


def test_a_move_changes_the_dependency_and_nothing_else() -> None:
    assert scontrol.build_free_argv(JOB, "", unpin=False) == [
        "scontrol",
        "update",
        "JobId=7",
        "Dependency=",
    ]
    held = scontrol.build_set_dependency_argv(JOB, "afterany:3(unfulfilled),afterok:4", unpin=False)
    assert held[-1] == "Dependency=afterany:3,afterok:4"


def test_only_an_unpinned_or_pinned_job_has_its_nodes_changed() -> None:
    assert scontrol.build_pin_argv(JOB, "", "gpu[01-02]")[-1] == "ReqNodeList=gpu[01-02]"
    assert scontrol.build_free_argv(JOB, "", unpin=True)[-1] == "ReqNodeList="
    assert scontrol.build_set_dependency_argv(JOB, "afterany:3", unpin=True)[-1] == "ReqNodeList="


def test_the_other_moves() -> None:
    assert scontrol.build_uhold_argv(JOB) == ["scontrol", "uhold", "7"]
    assert scontrol.build_release_argv(JOB) == ["scontrol", "release", "7"]
    assert scancel.build_argv(JOB) == ["scancel", "--verbose", "7"]


def test_the_sites_regime_is_read_from_its_configuration(captures: Captures) -> None:
    site = scontrol.parse_site_config(captures.answer("scontrol-show-config.txt"))
    assert site.version.startswith(f"{captures.release}.")
    assert site.cluster_name == "testbed"
    assert (site.accrues_always, site.age_counts, site.keeps_comments) == (False, True, True)
    assert (site.weights["age"], site.weights["fairshare"]) == (1_008_000, 0)
    assert site.private_data == frozenset()


def _site(**changes: str) -> scontrol.SiteConfig:
    text = answer("scontrol-show-config.txt")
    values = scontrol.parse_config(text) | changes
    return scontrol.parse_site_config(
        "\n".join(f"{key} = {value}" for key, value in values.items())
    )


def test_age_that_always_accrues_is_seen_among_other_flags() -> None:
    site = _site(PriorityFlags="ACCRUE_ALWAYS,SMALL_RELATIVE_TO_TIME")
    assert site.accrues_always
    assert site.priority_flags == {"ACCRUE_ALWAYS", "SMALL_RELATIVE_TO_TIME"}


def test_age_counts_for_nothing_without_slurmdbd_weight_or_multifactor() -> None:
    assert not _site(AccountingStorageType="(null)").age_counts
    assert not _site(PriorityWeightAge="0").age_counts
    assert not _site(PriorityType="priority/basic").age_counts


def test_sacct_has_no_comments_where_the_flag_is_missing() -> None:
    assert not _site(AccountingStoreFlags="(null)").keeps_comments
    assert not _site(AccountingStorageType="accounting_storage/none").keeps_comments


@pytest.mark.parametrize(
    "text", ["", "Configuration data as of now\n", "SLURM_VERSION = 22.05.8\n"]
)
def test_half_a_configuration_is_refused(text: str) -> None:
    with pytest.raises(MalformedText, match="show config"):
        scontrol.parse_config(text)


@pytest.mark.parametrize(
    "name", ["sbatch-success", "sbatch-parsable", "sbatch-array", "sbatch-het"]
)
def test_the_id_of_a_job_that_sbatch_took(captures: Captures, name: str) -> None:
    taken = captures.outcome(name)
    assert str(sbatch.parse_job_id(taken.stdout)) in taken.stdout


@pytest.mark.parametrize(
    ("stdout", "job_id"),
    [
        ("12;testbed\n", 12),
        ("Submitted batch job 12 on cluster other\n", 12),
        ("welcome to the site\nSubmitted batch job 12\n", 12),
        ("3 jobs are running\n12\n", 12),
        ("7;8 nodes are down\n12;testbed\n", 12),
    ],
)
def test_the_id_among_what_plug_ins_print(stdout: str, job_id: int) -> None:
    assert sbatch.parse_job_id(stdout) == job_id


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "Submitted batch job\n",
        "sbatch: Job 2 to start at noon\n",
        "7\nSubmitted batch job 12\n",
    ],
)
def test_no_id_is_said(stdout: str) -> None:
    with pytest.raises(MalformedText, match="no job id"):
        sbatch.parse_job_id(stdout)
