"""All links at once: who depends on whom, and what is left to the links themselves."""

from __future__ import annotations

import pytest

from tests.support.slurm_plugin.fakes import FakeSlurm

SCRIPT = "#!/bin/sh\ntrue\n"


def test_each_link_depends_on_all_before_it(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    words = ["--mirage-chain=4", "--mirage-presubmit=all", "-N2", "-d", "afterok:5", "-H"]
    done = slurm.sbatch(*words, "--comment=mine", "job.sh", "a b", env={"SLURM_X": "1", "Y": "2"})
    assert done.stdout == b"Submitted batch job 101\n"
    (chain,) = slurm.chains()
    first, *later = slurm.calls()
    assert "afterok:5" in first.argv
    for link, behind in ((2, "101"), (3, "101:102"), (4, "101:102:103")):
        call = later[link - 2]
        assert call.argv == [
            *("-N2", "--parsable", f"--dependency=afterany:{behind}"),
            *(f"--comment=mine mirage:{chain.name}:{link}", "--open-mode=append"),
            *(f"{chain}/carrier/job.sh", f"mirage:{chain.name}:{link}", "a b"),
        ]
        assert call.cwd == first.cwd
        assert {**call.env, "SLURM_X": "1"} == first.env
        assert (chain / "jobs" / str(link)).read_text() == f"{100 + link}\n"
    assert len(later) == 3


def test_where_sbatch_refuses_the_links_go_on_by_themselves(slurm: FakeSlurm) -> None:
    slurm.script(SCRIPT)
    limit = "[ $n -le 2 ] || { echo 'sbatch: error: too many' >&2; exit 1; }\n"
    sbatch = slurm.root / "bin" / "sbatch"
    sbatch.write_text(sbatch.read_text().replace("call=", limit + "call=", 1))
    done = slurm.sbatch("--mirage-chain=4", "--mirage-presubmit=all", "job.sh")
    assert (done.stdout, done.returncode) == (b"Submitted batch job 101\n", 0)
    assert (
        b"mirage: 2 of 4 links are in the queue, and the links submit the others:"
        b" sbatch: error: too many\n" in done.stderr
    )
    (chain,) = slurm.chains()
    assert sorted(path.name for path in (chain / "jobs").iterdir()) == ["2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--mirage-total=1-0"], b"takes --mirage-chain=N with N up to 100"),
        (["--mirage-chain=101"], b"takes --mirage-chain=N with N up to 100"),
        (["--mirage-chain=3", "--mirage-mode=submit"], b"exclude each other"),
    ],
)
def test_what_cannot_be_presubmitted_is_refused(
    slurm: FakeSlurm, words: list[str], sentence: bytes
) -> None:
    slurm.script(SCRIPT)
    done = slurm.sbatch("--mirage-presubmit=all", *words, "job.sh")
    assert sentence in done.stderr
    assert done.returncode == 1
    assert slurm.calls() == []


def test_with_quiet_the_id_is_asked_of_squeue(slurm: FakeSlurm) -> None:
    """Real sbatch -Q names no job, not even with --parsable."""
    slurm.script(SCRIPT)
    silent = "    -Q | --quiet) exec >/dev/null ;;\n"
    sbatch = slurm.root / "bin" / "sbatch"
    sbatch.write_text(sbatch.read_text().replace("    --parsable)", silent + "    --parsable)"))
    squeue = slurm.root / "bin" / "squeue"
    squeue.write_text(
        '#!/bin/sh\n[ -z "$SQUEUE_STATES" ] || exit 0\n'
        f'while read -r id text; do echo "$text $id"; done <{slurm.root}/queue\n'
    )
    words = ("-Q", "--mirage-chain=2", "--mirage-presubmit=all", "job.sh")
    done = slurm.sbatch(*words, env={"SQUEUE_STATES": "RUNNING"})
    assert (done.stdout, done.stderr) == (b"", b"")
    assert "--dependency=afterany:101" in slurm.calls()[1].argv
