"""A script that hands its state on by the environment of sbatch: each link has its own values."""

from __future__ import annotations

import dataclasses
import subprocess

import pytest

from tests.support.slurm_plugin.fakes import FakeSlurm, Link
from tests.support.slurm_plugin.once import Queue, is_carrier
from tests.support.slurm_plugin.unwritable import build_namespace

HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
COUNTS = """part=${PART:-1}
echo "part $part" >>$HOME/parts
[ "$part" -ge 3 ] || """
BY_CALL = {
    "export": "sbatch --export=ALL,PART=$((part + 1)) -d afterany:$SLURM_JOB_ID job.sh\n",
    "export alone": "sbatch --export=PART=$((part + 1)) job.sh\n",
    "changed": "{ export PART=$((part + 1)); sbatch job.sh; }\n",
    "changed before exec": "{ export PART=$((part + 1)); exec sbatch job.sh; }\n",
    "in any case": "{ export PART=$((part + 1)); sbatch --export=All,OTHER=1 job.sh; }\n",
    "for one command": 'PART=$((part + 1)) sbatch "$0"\n',
    "named": "{ export PART=$((part + 1)); sbatch --export=PART,HOME job.sh; }\n",
    "from a program": (
        "/usr/bin/env PART=$((part + 1)) python3 -c 'import os; os.system(\"sbatch job.sh\")'\n"
    ),
    "by a file": "{ printf 'PART=%d\\0' $((part + 1)) >vars; sbatch --export-file=vars job.sh; }\n",
}


def parts(slurm: FakeSlurm) -> list[str]:
    return (slurm.root / "home" / "parts").read_text().splitlines()


def lines(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [line for line in done.stderr.decode().splitlines() if line.startswith("mirage: ")]


def submit(slurm: FakeSlurm, body: str, *words: str) -> Queue:
    slurm.script(HEAD + body)
    done = slurm.sbatch(*(words or ("--mirage-chain=3",)), "job.sh")
    assert done.returncode == 0, done.stderr
    return Queue(slurm)


@pytest.mark.parametrize("way", BY_CALL)
def test_each_link_has_the_values_that_the_one_before_it_handed_on(
    slurm: FakeSlurm, way: str
) -> None:
    queue = submit(slurm, COUNTS + BY_CALL[way])
    assert queue.run() == 3
    assert parts(slurm) == ["part 1", "part 2", "part 3"]
    (said,) = lines(queue.done[0])
    assert "link 2 of this chain is job 102 already: nothing was submitted" in said
    assert "; the link gets " in said
    assert "PART of this call" in said


def test_links_that_all_stand_already_have_them_too(slurm: FakeSlurm) -> None:
    queue = submit(slurm, COUNTS + BY_CALL["export"], "--mirage-chain=3", "--mirage-presubmit=all")
    assert queue.run() == 3
    assert parts(slurm) == ["part 1", "part 2", "part 3"]


def test_values_stay_where_a_link_hands_none_on(slurm: FakeSlurm) -> None:
    """The chain has more links than the script has parts."""
    queue = submit(slurm, COUNTS + BY_CALL["changed"], "--mirage-chain=5")
    assert queue.run() == 5
    assert parts(slurm) == ["part 1", "part 2", "part 3", "part 3", "part 3"]


def test_a_second_step_with_other_values_is_new_work(slurm: FakeSlurm) -> None:
    """As without a chain: one job for each value, and the first of them is the next link."""
    body = (
        'echo "part ${PART:-1}" >>$HOME/parts\n[ -n "$PART" ] || for p in 2 2 3; do\n'
        "PART=$p sbatch job.sh\ndone\n"
    )
    queue = submit(slurm, body, "--mirage-chain=2")
    assert queue.run() == 3
    assert sorted(parts(slurm)) == ["part 1", "part 2", "part 3"]
    assert [is_carrier(call) for call in slurm.calls()] == [True, True, False]
    third = lines(queue.done[0])[2]
    assert "link 2 of this chain has other values: submitted as one plain job" in third


def test_a_variable_that_is_gone_is_gone_in_the_next_link(slurm: FakeSlurm) -> None:
    body = 'echo "${FIRST-none}" >>$HOME/parts; unset FIRST; sbatch job.sh\n'
    slurm.environ["FIRST"] = "it 'is'\nthere"
    assert submit(slurm, body, "--mirage-chain=2").run() == 2
    assert parts(slurm) == ["it 'is'", "there", "none"]


def test_what_no_call_hands_on_changes_nothing(slurm: FakeSlurm) -> None:
    """NONE hands nothing on, and a value that has not changed is no change."""
    body = 'echo "${PART-1}" >>$HOME/parts\nexport PART=2\nsbatch --export=NONE job.sh\n'
    queue = submit(slurm, body, "--mirage-chain=2")
    assert queue.run() == 2
    assert parts(slurm) == ["1", "1"]
    assert "gets" not in lines(queue.done[0])[0]
    (chain,) = slurm.chains()
    assert not (chain / "values").exists()


def test_a_name_of_the_carriers_own_is_none_of_the_scripts(slurm: FakeSlurm) -> None:
    body = "export mirage_index=9 mirage_dir=/ PART=2\nsbatch job.sh\necho $MIRAGE_LINK $PART\n"
    queue = submit(slurm, body, "--mirage-chain=2")
    assert queue.run() == 2
    assert [done.stdout.split()[-2:] for done in queue.done] == [[b"1", b"2"], [b"2", b"2"]]


def test_a_step_that_cannot_be_written_down_runs_nowhere(
    slurm: FakeSlurm, shell: list[str]
) -> None:
    """As a plain job it would run beside the next link, which begins the old step once more."""
    slurm.script(HEAD + "mount -o remount,ro,bind $MIRAGE_DIR\nPART=2 sbatch job.sh; echo rc $?\n")
    link = Link.submitted(slurm, shell, "--mirage-chain=3", "job.sh")
    words = [*build_namespace(link.chain, "writable"), *shell]
    done = dataclasses.replace(link, shell=words).run()
    assert done.stdout == b"rc 1\n"
    assert b"cannot have PART of this call (Read-only file system): nothing" in done.stderr
    assert len(slurm.calls()) == 2


def test_a_carrier_of_an_older_release_is_said_to_know_no_values(slurm: FakeSlurm) -> None:
    queue = submit(slurm, COUNTS + BY_CALL["export"], "--mirage-chain=2")
    (chain,) = slurm.chains()
    kept = chain / "carrier" / "job.sh"
    kept.write_bytes(kept.read_bytes().replace(b"mirage_take_values", b"mirage_older_values"))
    queue.run(most=1)
    (said,) = lines(queue.done[0])
    assert "with the environment of the first submission: nothing was submitted" in said
