"""Run commands in turn as the user that runs this, and tell what came of each (JSON to JSON).

One process for hundreds of calls: to start each from the tests' own process would take longer than
all that is measured. `jobs`: those that Slurm knows after the call and did not know before.
"""

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    calls = json.load(sys.stdin)
    known = jobs()
    for call in calls:
        done = run(call)
        now = jobs()
        print(json.dumps({**done, "jobs": sorted(now - known)}), flush=True)  # noqa: T201
        known = now


def run(call: dict) -> dict:  # type: ignore[type-arg]
    """`argv[0]` is what the command is called; `program` is what is run."""
    given = open(call["stdin_file"], "rb") if call["stdin_file"] else subprocess.DEVNULL  # noqa: SIM115
    data = call["stdin"]
    began, used = time.perf_counter(), cpu_s()
    done = subprocess.run(
        call["argv"],
        executable=call["program"],
        cwd=call["cwd"],
        env=call["env"],
        capture_output=True,
        check=False,
        **({"stdin": given} if data is None else {"input": data.encode()}),
    )
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_s() - used,
        "code": done.returncode,
        "stdout": done.stdout.decode("utf-8", "replace"),
        "stderr": done.stderr.decode("utf-8", "replace"),
    }


def cpu_s() -> float:
    """What the commands so far have computed: the same on a busy machine as on a quiet one."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def jobs() -> set[int]:
    shown = subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "%A"], capture_output=True, check=True
    )
    return {int(word) for word in shown.stdout.split()}


if __name__ == "__main__":
    main()
