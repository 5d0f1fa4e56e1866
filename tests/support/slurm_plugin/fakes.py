"""Slurm's commands as small scripts in a directory that a test puts first on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.prepared import ASKING_PATIENTLY, prepare_wrapper

WRAPPER = PLUGIN / "sbatch"

# Each command records its arguments, environment and standard input, then answers as the test says.
SBATCH = r"""#!/bin/sh
case $1 in --autocomplete=-- | --help | --usage)
    if [ $# = 1 ]; then
        echo "$1" >>{home}/asked
        exec cat "{home}/said$1"
    fi
    ;;
esac
n=$(($(cat {home}/count) + 1)); echo $n >{home}/count
call={home}/calls/$n; mkdir $call
printf '%s\0' "$@" >$call/argv
env -0 >$call/env
pwd >$call/cwd
umask >$call/umask
for word in "$@"; do [ ! -f "$word" ] || cp "$word" $call/script; done
[ -f $call/script ] || cat >$call/script
cat {home}/sbatch.err >&2
code=$(cat {home}/sbatch.code)
[ "$code" = 0 ] || exit "$code"
job=$((100 + n)); out="Submitted batch job $job"
for word in "$@"; do
    case $word in
    --parsable) out=$job ;;
    --comment=*)
        comment=${{word#--comment=}}
        printf '%s\n' "$job $comment" | tr '\n' '\001' | sed 's/.$/\n/' >>{home}/queue
        ;;
    --test-only) echo "sbatch: Job 9 to start at once" >&2; exit 0 ;;
    esac
done
printf '%s\n' "$out"
"""
SQUEUE = r"""#!/bin/sh
printf '%s\n' "$*${{SQUEUE_LOCAL:+ local}}" >>{home}/questions
[ -z "$SQUEUE_STATES$SQUEUE_PARTITION$SQUEUE_USERS" ] || exit 0
[ ! -f {home}/elsewhere ] || [ "$SLURM_CLUSTERS" = "$(cat {home}/elsewhere)" ] || exit 0
case " $* " in
*" --all "* | *" -j "*) ;;
*) exit 0 ;; # the partition is a hidden one
esac
[ ! -f {home}/slurm.down ] || {{ echo "slurm_load_jobs error" >&2; exit 1; }}
job= only=
while [ $# -gt 0 ]; do
    case $1 in
    -j) job=$2; shift ;;
    -t) only=$2; shift ;;
    -o | -O) format=$2; shift ;;
    esac
    shift
done
case $format in
'%U %T %r') # whoever waits in the partition
    [ ! -f {home}/partition.code ] || exit "$(cat {home}/partition.code)"
    cat {home}/partition
    exit 0
    ;;
JobID:*) # in columns: what `job_in_full` says of each
    [ "$SLURM_TIME_FORMAT" = %s ] || exit 1
    for one in $(echo "$job" | tr , ' '); do
        [ -f {home}/full.$one ] || continue
        read -r state eligible start end nodes <{home}/full.$one
        dependency=$(cat {home}/dependency.$one)
        printf '%-20s%-20s%-160s%-24s%-24s%-24s%-12s\n' \
            "$one" "$state" "$dependency" "$eligible" "$start" "$end" "$nodes"
    done
    exit 0
    ;;
esac
if [ -z "$job" ]; then
    while read -r id text; do
        state=PENDING reason=Dependency end=N/A start=N/A
        [ ! -f {home}/begun.$id ] || state=RUNNING
        [ ! -f {home}/state.$id ] || read -r state reason end start <{home}/state.$id
        case $only,$state in
        all,* | "$state,$state") ;;
        ,PENDING | ,RUNNING | ,COMPLETING | ,SUSPENDED) ;;
        *) continue ;;
        esac
        case $format in
        '%i %T %r') printf '%s\n' "$id $state $reason"; continue ;;
        '%k %i %T %r') id="$id $state $reason" ;;
        '%k %i %T %e') id="$id $state $end" ;;
        '%k %i %T %S %e') id="$id $state $start $end" ;;
        '%k %i %E')
            dependency='(null)'
            [ ! -f {home}/dependency.$id ] || dependency=$(cat {home}/dependency.$id)
            id="$id $dependency"
            ;;
        esac
        printf '%s\n' "$text $id" | tr '\001' '\n'
    done <{home}/queue
    exit 0
fi
case $format in
'%A %e')
    for one in $(echo "$job" | tr , ' '); do
        [ ! -f {home}/state.$one ] || read -r state reason end start <{home}/state.$one
        [ "$state" != RUNNING ] || echo "$one $end"
    done
    exit 0
    ;;
RestartCnt:*) [ -f {home}/shown ] && exec cat {home}/shown ;;
esac
[ -f {home}/state.$job ] || {{ echo "Invalid job id specified" >&2; exit 1; }}
read -r state reason end start <{home}/state.$job
case $format in
%T) echo "$state" ;;
%e) echo "$end" ;;
'%T %r') echo "$state $reason" ;;
'%T %S %e') echo "$state $start $end" ;;
esac
"""
SCONTROL = "#!/bin/sh\nexit 1\n"
SACCT = "#!/bin/sh\nexit 1\n"
SLEEP = r"""#!/bin/sh
printf '%s\n' "$1" >>{home}/slept
case $1 in *.*) exec /usr/bin/sleep "$1" ;; esac
exec /usr/bin/sleep "$(printf '%d.%02d' "$(($1 / 100))" "$(($1 % 100))")"
"""
SCANCEL = r"""#!/bin/sh
[ -z "$SCANCEL_USER$SCANCEL_PARTITION" ] || exit 0
printf '%s\n' "$*" >>{home}/scancelled
only=
for word in "$@"; do
    case $word in
    --state=*) only=${{word#--state=}} ;;
    esac
    state=PENDING rest=None
    [ ! -f {home}/state.$word ] || read -r state rest <{home}/state.$word
    [ "${{only:-$state}}" = "$state" ] || continue
    [ ! -f {home}/state.$word ] || echo "CANCELLED $rest" >{home}/state.$word
    sed -i "/^$word /d" {home}/queue
done
"""
MUNGE = "#!/bin/sh\ncat >{home}/payload\nprintf 'MUNGE:credential:'\n"


_HEARS_SIGNALS = ("/usr/bin/env", "--default-signal=HUP,INT,QUIT")
"""As slurmstepd starts a script. Under nohup or `&` the tests' own process ignores these signals,
and a shell cannot trap a signal that was ignored when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the fake sbatch."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    umask: str
    script: bytes


@dataclass(frozen=True, slots=True)
class FakeSlurm:
    """The fakes, and a user's home beside them."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    patient: bool = False
    """Whether each wrapper is patient (`sbatch`)."""

    @classmethod
    def at(cls, root: Path) -> FakeSlurm:
        fake = cls(root)
        for folder in ("bin", "calls", "home", "tmp"):
            (root / folder).mkdir()
        for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
            fake.command(name, text)
        for name, text in (("scontrol", SCONTROL), ("munge", MUNGE), ("sacct", SACCT)):
            fake.command(name, text)
        (root / "count").write_text("0\n")
        (root / "queue").write_text("")
        fake.answers()
        fake.environ.update(
            PATH=f"{PLUGIN}:{root}/bin:/usr/bin:/bin",
            HOME=str(root / "home"),
            TMPDIR=str(root / "tmp"),
            MIRAGE_URL="http://127.0.0.1:1",
            MIRAGE_CLUSTER_NAME="lab",
            LC_ALL="C.UTF-8",
        )
        return fake

    def command(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text.format(home=self.root))
        path.chmod(0o755)

    def sleeps_briefly(self) -> None:
        """Make `sleep` a hundred times shorter, and record its arguments."""
        self.command("sleep", SLEEP)

    def count_questions(self, job: int) -> int:
        """Return how often squeue was asked about this job."""
        path = self.root / "questions"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(f"-j {job} " in f"{line} " for line in lines)

    def count_looks(self) -> int:
        """Return how often a link slept for two seconds, as it does between two looks at files."""
        path = self.root / "slept"
        return path.read_text().splitlines().count("2") if path.exists() else 0

    def answers(self, *, stderr: str = "", code: int = 0) -> None:
        (self.root / "sbatch.err").write_text(stderr)
        (self.root / "sbatch.code").write_text(f"{code}\n")

    def job_is(
        self,
        job: int,
        state: str,
        *,
        reason: str = "None",
        end: int | str = "N/A",
        start: int | str = "N/A",
    ) -> None:
        (self.root / f"state.{job}").write_text(f"{state} {reason} {end} {start}\n")

    def has_queued(self, job: int, comment: str) -> None:
        """Put a job into the queue without a call of sbatch."""
        with (self.root / "queue").open("a") as queue:
            queue.write(f"{job} {comment}\n")

    def job_in_full(
        self,
        job: int,
        state: str,
        *,
        dependency: str = "(null)",
        times: tuple[object, object, object] = ("N/A", "N/A", "N/A"),
        nodes: int = 1,
    ) -> None:
        """Set what `squeue -O` shows of a job; `times`: eligible, start, end."""
        words = " ".join(map(str, times))
        (self.root / f"full.{job}").write_text(f"{state} {words} {nodes}\n")
        (self.root / f"dependency.{job}").write_text(f"{dependency}\n")

    def dependency(self, job: int) -> str:
        return (self.root / f"dependency.{job}").read_text().strip()

    def says_of_itself(self, question: str, answer: str) -> None:
        """Set what sbatch answers to `--autocomplete=--`, `--help` or `--usage`."""
        (self.root / f"said{question}").write_text(answer)

    def sbatch_was_asked(self) -> list[str]:
        """Return the questions that sbatch got about its own options."""
        path = self.root / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def calls(self) -> list[Call]:
        paths = sorted((self.root / "calls").iterdir(), key=lambda path: int(path.name))
        return [_call(path) for path in paths]

    def script(self, text: str | bytes, name: str = "job.sh") -> Path:
        path = self.root / "home" / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def sbatch(
        self,
        *words: str,
        program: Path = WRAPPER,
        patient: bool = False,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the wrapper.

        A `patient` one waits for the service, and for the answers of sbatch about its options, even
        on a very busy machine.
        """
        command: list[str | Path] = [program]
        if patient or self.patient:
            command = [sys.executable, *prepare_wrapper(program, ASKING_PATIENTLY)]
        return subprocess.run(
            [*command, *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            check=False,
            cwd=self.root / "home",
            env=self.environ | dict(env or {}),
        )

    def chains(self) -> list[Path]:
        base = self.root / "home" / ".local" / "state" / "mirage"
        return sorted(base.iterdir()) if base.is_dir() else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A chain whose first link was submitted to the fake sbatch, and a shell to run its links."""

    slurm: FakeSlurm
    shell: Sequence[str]
    carrier: Path
    chain: Path

    @classmethod
    def submitted(cls, slurm: FakeSlurm, shell: Sequence[str], *words: str) -> Link:
        process = slurm.sbatch(*words)
        assert process.returncode == 0, process.stderr
        (chain,) = slurm.chains()
        (carrier,) = (chain / "carrier").iterdir()
        return cls(slurm=slurm, shell=shell, carrier=carrier, chain=chain)

    def start(
        self, index: int = 1, *arguments: str, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        (self.slurm.root / f"begun.{100 + index}").touch()
        return subprocess.Popen(
            [
                *_HEARS_SIGNALS,
                *self.shell,
                self.carrier,
                f"mirage:{self.chain.name}:{index}",
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.slurm.root / "home",
            env=self.slurm.environ | {"SLURM_JOB_ID": str(100 + index)} | dict(env or {}),
            start_new_session=True,
        )

    def signal_job(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Signal every process of a link's job, as Slurm does that tracks them by their parents."""
        job = [process.pid]
        for pid in job:  # grows
            with suppress(FileNotFoundError, ProcessLookupError):  # it may end any moment
                job += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        subprocess.run(["kill", "-s", name, "--", *map(str, job)], check=False)

    def run(
        self,
        index: int = 1,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        with self.start(index, *arguments, env=env) as process:
            out, err = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def end_of(self, index: int) -> str | None:
        path = self.chain / "ends" / str(index)
        return path.read_text().strip() if path.exists() else None

    def log(self) -> str:
        return (self.chain / "log").read_text()


def _call(path: Path) -> Call:
    env = [entry.split("=", 1) for entry in _strings(path / "env")]
    return Call(
        argv=_strings(path / "argv"),
        env={entry[0]: entry[1] for entry in env},
        cwd=(path / "cwd").read_text().rstrip("\n"),
        umask=(path / "umask").read_text().rstrip("\n"),
        script=(path / "script").read_bytes(),
    )


def _strings(path: Path) -> list[str]:
    return [os.fsdecode(part) for part in path.read_bytes().split(b"\0")[:-1]]
