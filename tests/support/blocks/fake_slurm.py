"""sbatch, squeue and scancel as shell scripts, which run what is submitted on this machine."""

import shlex
import subprocess
from pathlib import Path

from tests.support.cluster.commands import FakeCommands

_SBATCH = """#!/bin/sh
# Of sbatch, what submitit uses: a script with #SBATCH lines.
cd {state} || exit 1
job=$(( $(cat last) + 1 ))
count=$(sed -n 's/^#SBATCH --array=.*0-\\([0-9]*\\)%.*/\\1/p' "$1")
comment=$(sed -n 's/^#SBATCH --comment=//p' "$1")
tasks=${{count:-0}}
if [ -s refusal ]; then cat refusal >&2; exit 1; fi
if [ $(( tasks + 1 + $(ls queue | wc -l) )) -gt $(cat most) ]; then
    echo "sbatch: error: AssocMaxSubmitJobLimit" >&2
    echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" \\
        "(job submit limit, user's size and/or time limits)" >&2
    exit 1
fi
echo "$job $(( tasks + 1 ))" >> submitted
echo "$job" > last
env > environment
sed 's/^#SBATCH --output=.*//' "$1" > "$job.sh"
for index in $(seq 0 "$tasks"); do
    name=$job
    [ -z "$count" ] || name=${{job}}_$index
    echo "$name|None|$comment" > "queue/$name"
    (
        export SLURM_JOB_ID="$job$index" SLURM_NTASKS=1
        [ -z "$count" ] || export SLURM_ARRAY_JOB_ID="$job" SLURM_ARRAY_TASK_ID="$index"
        [ -n "$count" ] || export SLURM_JOB_ID="$job"
        [ -e lost ] || sh "$job.sh" > "log.$name" 2>&1
        rm -f "queue/$name"
    ) > /dev/null 2>&1 &
    echo $! >> pids
done
if [ -e silent ]; then
    rm silent
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
echo "Submitted batch job $job"
"""


class FakeSlurm:
    """What of Slurm the executor sees. Nothing waits: each task runs at once."""

    def __init__(self, commands: FakeCommands, state: Path) -> None:
        self._state = state
        (state / "queue").mkdir(parents=True)
        (state / "last").write_text("100\n")
        (state / "most").write_text("1000\n")
        place = shlex.quote(str(state))
        commands.runs("sbatch", _SBATCH.format(state=place))
        commands.runs("squeue", f"#!/bin/sh\ncat {place}/queue/* 2>/dev/null\nexit 0\n")
        commands.runs("scancel", f'#!/bin/sh\necho "$1" >> {place}/cancelled\n')
        commands.runs("srun", "#!/bin/sh\nexit 1\n")

    def refuse(self, text: str) -> None:
        """Let sbatch say no with this text."""
        (self._state / "refusal").write_text(f"sbatch: error: {text}\n")

    def take_no_more_than(self, tasks: int) -> None:
        """Let the account have so many tasks in the queue."""
        (self._state / "most").write_text(f"{tasks}\n")

    def answer_once_too_late(self) -> None:
        """Let the next sbatch time out although the array is submitted."""
        (self._state / "silent").touch()

    def list_submitted(self) -> list[int]:
        """List the number of tasks of each array so far."""
        text = (self._state / "submitted").read_text()
        return [int(line.split()[1]) for line in text.splitlines()]

    def read_environment(self) -> str:
        """Read the variables that the last array was submitted with."""
        return (self._state / "environment").read_text()

    def list_cancelled(self) -> list[str]:
        path = self._state / "cancelled"
        return path.read_text().split() if path.exists() else []

    def end(self) -> None:
        """End what still runs."""
        pids = self._state / "pids"
        for pid in pids.read_text().split() if pids.exists() else []:
            subprocess.run(["kill", pid], check=False, capture_output=True)
