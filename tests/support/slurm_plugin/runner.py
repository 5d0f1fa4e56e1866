"""Run commands in turn as the current user, and report the outcome of each (JSON to JSON).

One process runs hundreds of calls: starting each from the tests' own process would take longer than
the measured commands. `jobs` of an outcome: the jobs that Slurm knows only since that call.
"""

import json
import resource
import subprocess
import sys
import time


def main() -> None:
    calls = json.load(sys.stdin)
    earlier_jobs = jobs()
    for call in calls:
        outcome = run(call)
        current_jobs = jobs()
        print(json.dumps({**outcome, "jobs": sorted(current_jobs - earlier_jobs)}), flush=True)  # noqa: T201
        earlier_jobs = current_jobs


def run(call: dict) -> dict:  # type: ignore[type-arg]
    """`argv[0]` is what the command is called; `program` is what is run."""
    stdin_file = open(call["stdin_file"], "rb") if call["stdin_file"] else subprocess.DEVNULL  # noqa: SIM115
    data = call["stdin"]
    began, cpu_before_s = time.perf_counter(), cpu_s()
    process = subprocess.run(
        call["argv"],
        executable=call["program"],
        cwd=call["cwd"],
        env=call["env"],
        capture_output=True,
        check=False,
        **({"stdin": stdin_file} if data is None else {"input": data.encode()}),
    )
    return {
        "seconds": time.perf_counter() - began,
        "cpu_s": cpu_s() - cpu_before_s,
        "code": process.returncode,
        "stdout": process.stdout.decode("utf-8", "replace"),
        "stderr": process.stderr.decode("utf-8", "replace"),
    }


def cpu_s() -> float:
    """Return the CPU seconds of all commands so far: a busy machine does not change them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def jobs() -> set[int]:
    process = subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "%A"], capture_output=True, check=True
    )
    return {int(word) for word in process.stdout.split()}


if __name__ == "__main__":
    main()
