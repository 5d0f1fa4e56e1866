"""The carrier: what the user's script sees is what it would have seen without Mirage."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.slurm_plugin.fakes import FakeSlurm, Link

SHELLS = [["dash"], ["bash", "--posix"]]
PRINTS_ITSELF = b"#!/bin/cat\n"

# Bytes that sbatch accepts in a script: no NUL, no DOS line break. Nor a lone CR: at the end of the
# directives the line feed of the carrier would follow it, and such a script gets no chain.
BYTES = st.binary(max_size=4000).map(lambda raw: raw.replace(b"\0", b"").replace(b"\r", b""))


@settings(max_examples=25, deadline=None)
@given(tail=BYTES, shell=st.sampled_from(SHELLS))
def test_the_script_arrives_byte_for_byte(tail: bytes, shell: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        slurm = FakeSlurm.at(Path(folder))
        slurm.script(PRINTS_ITSELF + tail)
        link = Link.submitted(slurm, shell, "--mirage-chain=1", "job.sh")
        done = link.run()
        assert done.stdout == PRINTS_ITSELF + tail
        assert done.returncode == 0


@settings(max_examples=15, deadline=None)
@given(
    arguments=st.lists(
        st.text(st.characters(blacklist_characters="\0\r", blacklist_categories=["Cs"]))
    ),
    shell=st.sampled_from(SHELLS),
)
def test_arguments_arrive_whole_in_the_first_link_and_the_next(
    arguments: list[str], shell: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        slurm = FakeSlurm.at(Path(folder))
        slurm.script("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
        link = Link.submitted(slurm, shell, "--mirage-chain=2", "job.sh", *arguments)
        first = slurm.calls()[0]
        own = first.argv[first.argv.index(f"mirage:{link.chain.name}:1") + 1 :]
        assert own == arguments
        done = link.run(1, *own)
        shown = "".join(f"<{word}>" for word in arguments) or "<>"
        assert done.stdout.decode() == shown
        assert slurm.calls()[1].argv[-len(arguments) - 1 :] == [
            f"mirage:{link.chain.name}:2",
            *arguments,
        ]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (b"#!/bin/bash -u\necho ${BASH_VERSION:+bash} $-\n", b"bash huB\n"),
        (b"#! /bin/sh\necho $0 | sed 's,.*/,,'\n", b"slurm_script\n"),
        (b"#!/usr/bin/env -S python3 -I -S\nimport sys; print(sys.flags.isolated)\n", b"1\n"),
        (b"#!/usr/bin/python3\nimport sys\nprint(sys.argv[1:], sys.stdin.read())\n", b"[] in\n"),
    ],
)
def test_the_shebang_is_read_as_the_kernel_reads_it(
    slurm: FakeSlurm, shell: list[str], script: bytes, expected: bytes
) -> None:
    slurm.script(script)
    done = Link.submitted(slurm, shell, "--mirage-chain=1", "job.sh").run(stdin=b"in")
    assert (done.stdout, done.stderr, done.returncode) == (expected, b"", 0)


@pytest.mark.parametrize("code", [0, 1, 77, 127, 200])
def test_the_exit_code_is_the_scripts(slurm: FakeSlurm, shell: list[str], code: int) -> None:
    slurm.script(f"#!/bin/sh\nexit {code}\n")
    link = Link.submitted(slurm, shell, "--mirage-chain=1", "job.sh")
    assert link.run().returncode == code
    assert link.end_of(1) == f"exit {code}"
    assert list((slurm.root / "tmp").iterdir()) == []


def test_the_directives_stand_where_sbatch_reads_them(slurm: FakeSlurm) -> None:
    block = "#!/bin/bash -l\n#SBATCH -N2\n\n  # a comment\n#SBATCH --time=5\n"
    slurm.script(block + "true\n#SBATCH --nodes=9\n")
    slurm.sbatch("--mirage-chain=2", "job.sh")
    lines = slurm.calls()[0].script.decode().split("\n")
    ends = next(i for i, line in enumerate(lines) if line and not line.lstrip().startswith("#"))
    assert lines[0].startswith("#!")
    assert "\n".join(lines[2:ends]).rstrip("\n") == block.rstrip("\n")


def test_the_scripts_environment_is_the_jobs(slurm: FakeSlurm) -> None:
    """Run by the carrier's own shebang, since dash would drop exported functions."""
    slurm.script("#!/bin/cat /proc/self/environ\n")
    slurm.sbatch("--mirage-chain=1", "job.sh")
    (chain,) = slurm.chains()
    carrier = chain / "carrier" / "job.sh"
    shell = carrier.read_text().split("\n")[0][2:].split()
    odd = {"BASH_FUNC_module%%": "() {  echo module\n}", "a-b": "1", "SHLVL": "4", "Z": "x\ny"}
    link = Link(slurm=slurm, shell=shell, carrier=carrier, chain=chain)
    done = link.run(env=odd)
    seen = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if "=" in entry)
    given_ = slurm.environ | odd | {"SLURM_JOB_ID": "101"}
    names = {name for name in seen if name.startswith("MIRAGE_")} - slurm.environ.keys()
    assert names == {
        *("MIRAGE_CHAIN_ID", "MIRAGE_LINK", "MIRAGE_LINKS", "MIRAGE_PREV_JOBID"),
        *("MIRAGE_DIR", "MIRAGE_DEADLINE", "MIRAGE_FLOOR", "MIRAGE_PREV_STATE"),
        *("MIRAGE_RESUME", "MIRAGE_STYLE"),
    }
    differ = {name for name in given_.keys() | seen.keys() if given_.get(name) != seen.get(name)}
    assert differ - names <= {"_", "PWD", "OLDPWD"}


def test_no_temporary_directory_is_no_trouble(slurm: FakeSlurm, shell: list[str]) -> None:
    slurm.script("#!/bin/sh\necho ran\n")
    link = Link.submitted(slurm, shell, "--mirage-chain=1", "job.sh")
    done = link.run(env={"TMPDIR": "/nowhere"})
    assert (done.stdout, done.stderr, done.returncode) == (b"ran\n", b"", 0)


def test_without_its_directory_the_link_still_runs_the_script(
    slurm: FakeSlurm, shell: list[str]
) -> None:
    slurm.script("#!/bin/sh\necho ran\n")
    link = Link.submitted(slurm, shell, "--mirage-chain=3", "job.sh")
    carrier = slurm.root / "copy"
    carrier.write_bytes(link.carrier.read_bytes())
    link.chain.rename(slurm.root / "gone")
    moved = Link(slurm=slurm, shell=shell, carrier=carrier, chain=link.chain)
    done = moved.run()
    assert (done.stdout, done.returncode) == (b"ran\n", 0)
    assert b"the chain ends with this link" in done.stderr


def test_a_carrier_without_its_blank_lines_still_runs(slurm: FakeSlurm, shell: list[str]) -> None:
    """What sbatch 22.05 makes of every script of a heterogeneous job."""
    slurm.script("#!/bin/sh\n\necho one\n\n\necho two\n")
    link = Link.submitted(slurm, shell, "--mirage-chain=1", "job.sh")
    text = link.carrier.read_bytes()
    while b"\n\n" in text:
        text = text.replace(b"\n\n", b"\n")
    link.carrier.write_bytes(text)
    done = link.run()
    assert (done.stdout, done.stderr, done.returncode) == (b"one\ntwo\n", b"", 0)
