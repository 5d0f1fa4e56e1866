"""Ways of calling sbatch: those written out, and combinations drawn with a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import chain

PRINTS_NOTHING = "#!/bin/sh\n#SBATCH --time=5\ntrue\n"
SCRIPTS = {
    "job.sh": PRINTS_NOTHING,
    "a b.sh": PRINTS_NOTHING,
    "sub/job.sh": "#!/bin/bash\n#SBATCH -J insub\ntrue\n",
    "bin/onpath.sh": PRINTS_NOTHING,
    "job.py": "#!/usr/bin/env -S python3 -I\n#SBATCH -J snake\n#SBATCH --time=3\nprint()\n",
    "job.awk": "#!/usr/bin/awk -f\n#SBATCH --time=2\nBEGIN { exit 0 }\n",
    "job.pl": "#! /usr/bin/perl -w\n\n  # a word\n#SBATCH --comment='in \\' it' # more\nexit;\n",
    "het.sh": "#!/bin/sh\n#SBATCH -N1 -J one\n#SBATCH hetjob\n#SBATCH -N2\n\n\ntrue\n",
    "late.sh": "#!/bin/sh\ntrue\n#SBATCH --hold\n#MIRAGE --chain=3\n",
    "pbs.sh": "#!/bin/sh\n#PBS -N pbsname\n#PBS -l walltime=00:03:00\ntrue\n",
    "long.sh": "#!/bin/sh\n" + "# words\n" * 12_000 + "#SBATCH -J far\ntrue\n",
    "note.sh": "#!/bin/sh\n#SBATCH --comment=mirage:note\n# mirage: nothing asked\ntrue\n",
    "parsable.sh": "#!/bin/sh\n#SBATCH --parsable\ntrue\n",
    "bad.sh": "#!/bin/sh\n#SBATCH --no-such-option\ntrue\n",
    "stray.sh": "#!/bin/sh\n#SBATCH -N1 stray\ntrue\n",
    "dos.sh": "#!/bin/sh\r\ntrue\r\n",
    "bare.sh": "true\n",
    "empty.sh": "",
    "nul.sh": "#!/bin/sh\n\0\n",
    "closed.sh": PRINTS_NOTHING,
}
"""The files in alice's directory; she may not read `closed.sh`."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call: the words after `sbatch`, its standard input, and the environment's additions."""

    words: tuple[str, ...]
    stdin: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    stdin_file: str | None = None

    def with_words(self, *words: str) -> Invocation:
        return replace(self, words=(*words, *self.words))

    def tells_the_script_of_us(self) -> bool:
        """Return whether an option of Mirage's stands after the script: then one line says so."""
        script = [i for i, word in enumerate(self.words) if word in SCRIPTS]
        behind = self.words[script[0] + 1 :] if script else ()
        quiet = {"-Q", "--quiet", "--parsable"} & set(self.words)
        return not quiet and any(word.startswith("--mirage-") for word in behind)

    def __hash__(self) -> int:
        return hash((self.words, self.stdin))

    def __str__(self) -> str:
        words = [*(f"{k}={v}" for k, v in self.env.items()), "sbatch", *self.words]
        words += ["<", self.stdin_file] if self.stdin_file else []
        words += ["(script on a pipe)"] if self.stdin is not None else []
        return " ".join(words)[:100]


def call(*words: str, stdin: str | None = None, file: str | None = None, **env: str) -> Invocation:
    return Invocation(words, stdin, env, file)


ACCEPTED = [
    call("job.sh"),
    call("./job.sh", "an argument", "", "-N9", "--", "$HOME", "*"),
    call("a b.sh"),
    call("onpath.sh"),
    call("--chdir=sub", "job.sh"),
    call("-D", "sub", "./job.sh"),
    call("job.py", "--mirage-chain=3"),
    call("job.awk"),
    call("job.pl"),
    call("late.sh"),
    call("pbs.sh"),
    call("--ignore-pbs", "pbs.sh"),
    call("long.sh"),
    call("note.sh"),
    call("parsable.sh"),
    call("--parsable", "job.sh"),
    call("-Q", "job.sh"),
    call("-v", "job.sh"),
    call("-H", "-N2", "job.sh", "--array=1"),
    call("-HQ", "job.sh"),
    call("--parti", "gpu", "--", "job.sh", "-x"),
    call("--export=NONE", "--comment", "a 'b' \"c\" $HOME mirage:", "job.sh"),
    call("--export=HOME,X=1,Y", "job.sh", Y="a\nb"),
    call("job.sh", SBATCH_EXPORT="NONE"),
    call("--array=1-3%1", "job.sh"),
    call("-a", "0-7:2", "--parsable", "job.sh"),
    call("--wrap", "true 'a  b'; echo \"$X\""),
    call("--wrap=true", "-J", "wrapped one"),
    call("--wrap=a\nb"),
    call(stdin=PRINTS_NOTHING),
    call("-J", "piped", stdin="#!/bin/sh\n#SBATCH -N1\n" + "# x\n" * 30_000),
    call("-N1", file="job.py"),
    call("-N1", ":", "-N1", "job.sh"),
    call("-N1", "-Jx", ":", "-N2", "-c2", "--", "job.sh", "arg"),
    call("het.sh"),
    call("-J", "both", "het.sh"),
    call("-M", "testbed", "job.sh"),
    call("--clusters=testbed", "--parsable", "job.sh"),
    call("job.sh", SLURM_CLUSTERS="testbed"),
    call("job.sh", SBATCH_JOB_NAME="env name", SBATCH_TIMELIMIT="4", SBATCH_PARTITION="debug"),
    call("-t7", "job.sh", SBATCH_TIMELIMIT="4", SBATCH_OPEN_MODE="append", SBATCH_REQUEUE="1"),
    call("job.sh", SBATCH_ARRAY_INX="1-2"),
    call("job.sh", MIRAGE_DISABLE="1", MIRAGE_CHAIN="3"),
    call("job.sh", MIRAGE_MAX_OVERLAP="1:00:00", MIRAGE_CHAIN=""),
    call("--comment=mirage:0123456789abcdefghjk:4", "job.sh"),
    call("-N", "99", "job.sh"),
    call("--export-file=env.list", "job.sh"),
    call("--begin=2037-01-01", "--signal=B:USR1@60", "-k", "--nice=7", "job.sh"),
]
REFUSED = [
    call("--no-such-option", "job.sh"),
    call("--nodes"),
    call("--no", "job.sh"),
    call("-Z", "job.sh"),
    call("--hold=1", "job.sh"),
    call("-vQ", "job.sh"),
    call("bad.sh"),
    call("stray.sh"),
    call("dos.sh"),
    call("bare.sh"),
    call("empty.sh"),
    call("nul.sh"),
    call("closed.sh"),
    call("nowhere.sh"),
    call("."),
    call("-p", "nowhere", "job.sh"),
    call("-p", "nowhere", "job.sh", SLURM_EXIT_ERROR="7"),
    call("nowhere.sh", SLURM_EXIT_ERROR="9"),
    call("--bogus", SLURM_EXIT_ERROR="9"),
    call("-A", "nobody", "job.sh"),
    call("-d", "afterany:nonsense", "job.sh"),
    call("-t", "never", "job.sh"),
    call("-M", "nowhere", "job.sh"),
    call("--uid=bob", "job.sh"),
    call("--wrap=true", "job.sh"),
    call(stdin="true\n"),
    call(stdin=""),
    call(),
    call("-D", "nowhere", "job.sh"),
]
TELLS = [
    call("--version"),
    call("-V", "job.sh"),
    call("--usage"),
    call("--help"),
    call("--test-only", "job.sh"),
    call("--test-only", "-N", "99", "job.sh"),
    call("--test-only", "-p", "nowhere", "job.sh"),
]
"""Calls that submit nothing."""

_OPTIONS = [
    *(["-N1"], ["-N", "2"], ["--nodes=1-2"], ["-n2"], ["--ntasks", "3"], ["-c", "2"]),
    *(["--mem=100M"], ["--mem-per-cpu", "50"], ["--gres=gpu:1"], ["--exclusive"]),
    *(["-t", "5"], ["--time=0-1:00"], ["--time-min=2"], ["-J", "a 'b' $c"], ["--job-name=é"]),
    *(["-p", "gpu,debug"], ["--parti=debug"], ["-A", "research"], ["--qos=normal"]),
    *(["-o", "out-%j"], ["--output=/dev/null"], ["-e", "err"], ["-i", "/dev/null"]),
    *(["--open-mode=append"], ["-H"], ["--begin=2037-01-01T00:00"], ["-d", "afterany:1"]),
    *(["--requeue"], ["--no-requeue"], ["--mail-type=NONE"], ["--signal=USR1"]),
    *(["--export=NONE"], ["--export=ALL,Z=1"], ["--nice"], ["--nice=5"], ["-k"], ["-kQ"]),
    *(["--contiguous"], ["-w", "gpu01"], ["-x", "gpu02"], ["-C", "nofeature"]),
    *(["--spread-job"], ["-s"], ["-O"], ["--wckey=w"], ["--kill-on-invalid-dep=yes"]),
    *(["--comment", "plain words"], ["--comment="], ["--licenses=nolicense"], ["-G", "2"]),
    *(["--gpus-per-node=1"], ["--parsable"], ["-Q"], ["--hint=nomultithread"], ["-B", "1:1:1"]),
    *(["--array=1,3"], ["--deadline=2037-01-01"], ["--prio", "5"], ["--reboot"], ["--bogus=1"]),
]
_SCRIPTS = [
    *(["job.sh"], ["./job.sh", "x"], ["--", "job.py", "-v"], ["job.pl", ""], ["onpath.sh", "a b"]),
    *(["sub/job.sh"], ["--wrap=true"], ["--wrap", "echo 'x  y'"], ["het.sh"], ["nowhere.sh"]),
]
_ENVIRONMENTS: list[dict[str, str]] = [
    *({}, {}, {}, {"SBATCH_TIMELIMIT": "9"}, {"SBATCH_NO_REQUEUE": "1"}, {"ODD": "a\nb'\"\\"}),
    *({"SBATCH_PARTITION": "debug"}, {"SBATCH_COMMENT": "none such"}, {"SLURM_EXIT_ERROR": "5"}),
    *({"SBATCH_GRES": "gpu:2"}, {"SLURM_HINT": "nomultithread"}, {"SBATCH_DEBUG": "1"}),
]


def drawn(count: int, seed: int) -> list[Invocation]:
    """Draw calls with a seed: options in any number and order, then one of the scripts."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    invocations = []
    for _ in range(count):
        options = rng.sample(_OPTIONS, rng.randint(1, 6))
        words = [*chain.from_iterable(options), *rng.choice(_SCRIPTS)]
        invocations.append(Invocation(tuple(words), None, rng.choice(_ENVIRONMENTS)))
    return invocations
