"""What a user's program sees of a chain: its words, environment, directory, input, exit code.

Each call is made twice, by the real sbatch and as a chain by the wrapped one; both jobs are run.
The service is down: what a link gives its script does not depend on it. The programs write down
what they were given, each under its job's id.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.slurm_plugin.conformance import Answer, Side
from tests.support.slurm_plugin.invocations import call
from tests.support.slurm_testbed import OF_ONE_JOB

pytestmark = pytest.mark.slurm

SHELL = """#!/bin/bash
#SBATCH --time=5 -n1 --output=/dev/null
seen=$SLURM_SUBMIT_DIR/seen.$SLURM_JOB_ID; mkdir -p $seen
cat /proc/$$/environ >$seen/env; printf '%s\\0' "$@" >$seen/argv; pwd >$seen/cwd
basename "$0" >$seen/name; ulimit -a >$seen/limits; umask >>$seen/limits; trap >$seen/traps
readlink /proc/$$/fd/1 /proc/$$/fd/2 | sed 's/[0-9]//g' >$seen/streams
cat >$seen/stdin; touch $seen/whole; [ -z "$KILL" ] || kill -$KILL $$; exit ${CODE:-0}
"""
PYTHON = """#!/usr/bin/env -S python3 -I
#SBATCH --time=5 --output=/dev/null
import os, pathlib, signal, sys
seen = pathlib.Path(os.environ["SLURM_SUBMIT_DIR"], "seen." + os.environ["SLURM_JOB_ID"])
seen.mkdir()
(seen / "env").write_bytes(open("/proc/self/environ", "rb").read())
(seen / "argv").write_bytes(b"".join(os.fsencode(word) + b"\\0" for word in sys.argv[1:]))
(seen / "cwd").write_text(os.getcwd())
(seen / "stdin").write_bytes(sys.stdin.buffer.read())
known = [signal.getsignal(number) for number in (1, 2, 3, 10, 12, 15)]
(seen / "signals").write_text(str([getattr(one, "name", one.__class__) for one in known]))
(seen / "whole").touch()
sys.exit(5)
"""
AWK = """#!/usr/bin/awk -f
#SBATCH --time=5 --output=/dev/null
BEGIN {
    seen = ENVIRON["SLURM_SUBMIT_DIR"] "/seen." ENVIRON["SLURM_JOB_ID"]; system("mkdir " seen)
    for (i = 1; i < ARGC; i++) printf "%s|", ARGV[i] >(seen "/argv")
    print ENVIRON["ODD"] >(seen "/odd"); printf "" >(seen "/whole"); exit 6
}
"""
WRAPPED = SHELL.partition("\n")[2].replace("\n", ";", 1).replace("#SBATCH", ":")
CALLS = [
    call("see.sh"),
    call("see.sh", "an argument", "", "-N9", "--", "$HOME", "*", "a\nb", "\\", "'\"", "é"),
    call("./see.sh", ODD="a\nb'\"\\ $X `x`", EMPTY="", **{"a.b": "1"}),
    call("see.sh", **{"BASH_FUNC_module%%": "() {  echo module\n}"}),
    call("see.sh", BASH_ENV="/nonexistent", ENV="/nonexistent", PS4="x", POSIXLY_CORRECT="1"),
    call("see.sh", "-x", CODE="1"),
    call("see.sh", CODE="77"),
    call("see.sh", CODE="255"),
    call("see.sh", KILL="KILL"),
    call("see.sh", KILL="SEGV"),
    call("--export=NONE", "see.sh"),
    call("--export=ODD,Z=3", "see.sh", ODD="1", MORE="2"),
    call("--export=ALL,Z=3", "see.sh"),
    call("see.sh", SBATCH_EXPORT="NONE"),
    call("--chdir=sub", "see.sh"),
    call("-D", "/usr/share", "see.sh"),
    call("--input=input", "see.sh"),
    call("-i", "/dev/zero", "--wrap", "head -c 3 | od >$SLURM_SUBMIT_DIR/zero.$SLURM_JOB_ID"),
    call("-e", "err-%j", "see.sh"),
    call(
        "-N2",
        "-n4",
        "--ntasks-per-node=2",
        "--cpus-per-task=2",
        "--mem=200M",
        "--gres=gpu:2",
        "see.sh",
    ),
    call("--job-name=named here", "see.sh"),
    call("-o", "/dev/null", "--wrap", WRAPPED),
    call("-o", "/dev/null", "-J", "w", "--wrap", WRAPPED, CODE="9"),
    call(stdin=SHELL),
    call("-t4", stdin=SHELL),
    call(file="see.sh"),
    call("see.py", "-v", ""),
    call("see.py", "é", ODD="\udc80"),
    call("see.awk", "a b", ODD="1"),
    call("-N1", ":", "-N1", "see.sh", "x"),
    call(
        "see.sh", SBATCH_JOB_NAME="env name", SBATCH_OPEN_MODE="append", SLURM_HINT="nomultithread"
    ),
    call("--comment=mine", "see.sh"),
    call("see.sh", LANG="C"),
    call("see.sh", LC_CTYPE="C", TMPDIR="/nowhere"),
    call("--parsable", "--nice=3", "see.sh"),
]
TELLING = [i for i, made in enumerate(CALLS) if not {"see.awk", "/dev/zero"} & {*made.words}]
"""Those that write their environment down."""
A_LINK_HAS = {"CHAIN_ID", "LINK", "LINKS", "PREV_JOBID", "PREV_STATE", "RESUME", "DIR", "DEADLINE"}
A_LINK_HAS = {f"MIRAGE_{name}" for name in A_LINK_HAS | {"FLOOR", "STYLE"}}
# The carrier's shell gives them to who had none, as a script's own shell would.
OF_A_SHELL = {"PWD", "SHLVL", "_"}
# The job of a script on standard input has a name, but its program is not told.
OF_THE_JOB = {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_HET_JOB_ID", "SLURM_TASK_PID", "SLURM_JOB_NAME"}
OF_THE_NODE = {"SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"}
OF_THE_NODE |= {"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}
OF_THE_NODE |= {"ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "HOSTNAME"}
GROUPS = [f"{kind}_GROUP_{n}" for kind in ("HET", "PACK") for n in (0, 1)]
OF_THE_JOB |= {f"SLURM_JOB_ID_{group}" for group in GROUPS}
OF_THE_NODE |= {f"SLURM_JOB_NODELIST_{group}" for group in GROUPS}
OF_THE_JOB |= OF_ONE_JOB
DIFFERS = OF_A_SHELL | OF_THE_JOB | OF_THE_NODE
LATER_DIFFERS = (A_LINK_HAS - {"MIRAGE_CHAIN_ID", "MIRAGE_LINKS", "MIRAGE_DIR"}) | OF_THE_NODE
LATER_DIFFERS |= {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_TASK_PID", "SLURM_JOB_DEPENDENCY", "_"}
LATER_DIFFERS |= {"SLURM_OPEN_MODE"} | OF_ONE_JOB


@dataclass(frozen=True, slots=True)
class Run:
    """The two jobs of one call, ended."""

    side: Side
    real: Answer
    mine: Answer
    shown: dict[int, dict[str, str]]

    def seen(self, answer: Answer) -> Path:
        return self.side.home / f"seen.{answer.jobs[0]}"

    def file(self, answer: Answer, name: str) -> bytes:
        """What the program wrote."""
        return (self.seen(answer) / name).read_bytes()

    def environment(self, answer: Answer) -> dict[str, str]:
        return environment(self.seen(answer) / "env")


def environment(path: Path) -> dict[str, str]:
    entries = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


@pytest.fixture(scope="module")
def runs(side: Side) -> list[Run]:
    for name, text in (("see.sh", SHELL), ("see.py", PYTHON), ("see.awk", AWK), ("input", "in\n")):
        side.write(name, text)
    calls = []
    for made in CALLS:
        calls.append(side.call(made, wrapped=False))
        calls.append(side.call(made.with_words("--mirage-chain=1"), wrapped=True))
    answers = side.run(calls)
    side.wait_for([job for answer in answers for job in answer.jobs], 60)
    shown = side.read_jobs()
    return [Run(side, *two, shown) for two in zip(answers[::2], answers[1::2], strict=True)]


@pytest.mark.parametrize("index", range(len(CALLS)), ids=[str(made) for made in CALLS])
def test_the_program_sees_what_it_would_have_seen(runs: list[Run], index: int) -> None:
    run = runs[index]
    assert run.mine.get_output() == run.real.get_output()
    assert len(run.mine.own_lines()) <= 1
    real, mine = (run.shown[answer.jobs[0]] for answer in (run.real, run.mine))
    for name in ("JobState", "WorkDir", "JobName", "TimeLimit"):
        assert mine[name] == real[name]
    code, _, signal = real["ExitCode"].partition(":")
    # A shell above a program that a signal ended can say so in its exit code alone.
    assert mine["ExitCode"] == (f"{code}:0" if signal == "0" else f"{128 + int(signal)}:0")
    if not run.seen(run.real).exists():  # the program was no script of ours
        ids = [answer.jobs[0] for answer in (run.real, run.mine)]
        one, two = ((run.side.home / f"zero.{job}").read_bytes() for job in ids)
        assert one == two != b""
        return
    names = {path.name for path in run.seen(run.real).iterdir()}
    assert "whole" in names
    assert names == {path.name for path in run.seen(run.mine).iterdir()}
    for name in names - {"env"}:
        assert run.file(run.mine, name) == run.file(run.real, name), name


@pytest.mark.parametrize("index", TELLING, ids=[str(CALLS[index]) for index in TELLING])
def test_the_programs_environment_gains_the_chain_alone(runs: list[Run], index: int) -> None:
    run = runs[index]
    real, mine = run.environment(run.real), run.environment(run.mine)
    assert mine.keys() - real.keys() <= A_LINK_HAS | DIFFERS
    assert real.keys() - mine.keys() <= OF_A_SHELL
    assert {name for name in real.keys() & mine.keys() if real[name] != mine[name]} <= DIFFERS


ODD = {"ODD": "a\nb'\"\\ $X `x`", "BASH_FUNC_f%%": "() {  :\n}"}
CHAINS = [
    call("-n2", "see.sh", "a b", "", "*", **ODD),
    call("--export=NONE", "see.sh", "x", **ODD),
    call("see.sh", SBATCH_EXPORT="ODD,Z=3", SBATCH_JOB_NAME="named", **ODD),
]


def test_the_third_link_sees_what_the_first_did(side: Side) -> None:
    side.write("see.sh", SHELL)
    words = ["--mirage-chain=3", "--parsable"]
    answers = side.run([side.call(made.with_words(*words), wrapped=True) for made in CHAINS])
    chains = [side.chain_of(answer.jobs[0]) for answer in answers]
    ends = [chain / "ends" / "3" for chain in chains]
    side.testbed.wait_until(lambda: all(end.exists() for end in ends), 60, "the third links' ends")
    for made, chain in zip(CHAINS, chains, strict=True):
        jobs = [(chain / "jobs" / str(link)).read_text().strip() for link in (1, 2, 3)]
        one, two, three = (side.home / f"seen.{job}" for job in jobs)
        for name in ("argv", "cwd", "name", "limits", "traps", "streams", "stdin"):
            assert (three / name).read_bytes() == (one / name).read_bytes(), name
        for first, later in ((one, two), (two, three), (one, three)):
            before, after = environment(first / "env"), environment(later / "env")
            names = before.keys() | after.keys()
            assert {n for n in names if before.get(n) != after.get(n)} <= LATER_DIFFERS
            assert ("ODD" in after) == ("--export=NONE" not in made.words)


def test_waiting_ends_with_the_jobs_own_code(side: Side) -> None:
    words = ["--wait", "--parsable", "-o", "/dev/null", "--wrap", "exit 3"]
    calls = [side.call(call(*words), wrapped=wrapped) for wrapped in (False, True)]
    started = [
        side.testbed.popen([one["program"], *words], user="alice", env=one["env"], cwd=side.home)
        for one in calls
    ]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in started]
    for stdout, stderr, code in ended:
        assert stdout.strip().isdigit()
        assert (stderr, code) == ("", 3)
