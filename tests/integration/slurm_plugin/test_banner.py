"""A site's sbatch prints more than its answer: no number of a banner is taken for a job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.slurm_plugin.fakes import SBATCH, FakeSlurm, Link

ANSWER = "printf '%s\\n' \"$out\"\n"
SCRIPT = "#!/bin/sh\ntrue\n"
BANNERS = [
    "Welcome to the site",
    "3 nodes are down",
    "2027 brings new nodes; see the wiki",
    "7",
    "Submitted batch job 55",
    "Submitted batch job 55 is yours",
    "0",
    "7 jobs\n7\nwelcome \\c",
]
"""Some look like sbatch's own answer, wholly or in part; the last one's line does not end."""


def print_banner(slurm: FakeSlurm, banner: str, *, behind: bool) -> None:
    said = f"printf '%b\\n' '{banner}'\n"
    slurm.command("sbatch", SBATCH.replace(ANSWER, ANSWER + said if behind else said + ANSWER))


@pytest.fixture
def make(slurm: FakeSlurm, shell: list[str]) -> Callable[..., Link]:
    def submit(*words: str) -> Link:
        slurm.script(SCRIPT)
        return Link.submitted(slurm, shell, *words, "job.sh")

    return submit


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("banner", BANNERS)
def test_a_link_takes_the_job_of_its_standby_from_sbatchs_own_line(
    make: Callable[..., Link], banner: str, behind: bool
) -> None:
    link = make("--mirage-chain=2")
    print_banner(link.slurm, banner, behind=behind)
    done = link.run()
    assert (link.chain / "jobs" / "2").read_text() == "102\n"
    assert done.stderr == b""
    assert len(link.slurm.calls()) == 2


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("banner", BANNERS)
def test_links_that_all_stand_have_their_own_jobs(
    slurm: FakeSlurm, banner: str, behind: bool
) -> None:
    slurm.script(SCRIPT)
    print_banner(slurm, banner, behind=behind)
    done = slurm.sbatch("--mirage-chain=3", "--mirage-presubmit=all", "job.sh")
    (chain,) = slurm.chains()
    jobs = {path.name: path.read_text() for path in (chain / "jobs").iterdir()}
    assert jobs == {"2": "102\n", "3": "103\n"}, done.stderr
    assert "--dependency=afterany:101:102" in slurm.calls()[2].argv


def test_a_link_that_is_not_in_the_queue_says_that_sbatch_named_no_job(
    make: Callable[..., Link],
) -> None:
    link = make("--mirage-chain=2")
    link.slurm.command("sbatch", "#!/bin/sh\necho 3 nodes are down\n")
    done = link.run()
    said = b"link 2 is not in the queue yet: sbatch ended with 0 and printed no job id"
    assert said in done.stderr
