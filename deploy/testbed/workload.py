"""A small mixed workload: a job for every way to end that Slurm's records can show."""

from __future__ import annotations

import time

import clients
import clock
from settings import TestbedError

Jobs = dict[str, str]  # what became of it -> job id

_HOSTILE = {
    "hostile-name": ("a|b c\td 'e' \"f\" $HOME `g` é 作业 🚀", "plain"),
    "hostile-comment": ("plain", "k=v|w=\"x y\" JobState=RUNNING 'z' é 作业 🚀 # -- %s \\"),
    "hostile-empty": (" ", ""),
}
_HET = """#!/bin/sh
#SBATCH -n1 --gres=gpu:1 -t 120 -o /dev/null
#SBATCH hetjob
#SBATCH -n2 --gres=gpu:2 -t 120
sleep 6000
"""
_ONCE = '[ "${SLURM_RESTART_COUNT:-0}" -ge 1 ] || sleep 6000; sleep 120'


def sbatch(user: str, *words: str, run: str = "sleep 6000", script: str | None = None) -> str:
    """Submit and return the job id."""
    what = [] if script else ["--wrap", run]
    output = [] if any(word in ("-o", "--output") for word in words) else ["-o", "/dev/null"]
    argv = ["sbatch", "--parsable", *output, *words, *what]
    process = clients.run(argv, user=user, script=script)
    if process.returncode != 0:
        raise TestbedError(f"{argv}: {process.stderr.strip()}")
    return process.stdout.strip().partition(";")[0]


def submit() -> Jobs:
    """Let an hour or so of the cluster's time pass with ended, running and pending jobs."""
    jobs = _to_end()
    jobs |= _to_be_interfered_with()
    _interfere(jobs)
    jobs |= _to_run()
    jobs |= _to_stay_pending(jobs)
    let_pass(1500)  # the 2-minute limit strikes, backfill has planned, the array has started
    return jobs


def submit_few() -> list[str]:
    """Submit a chain's worth of jobs with comments and wait until they have ended."""
    first = sbatch("alice", "-t", "5", "--comment=mirage:c1:0", "-J", "one", run="sleep 60")
    second = sbatch(
        "alice", "-t", "5", "-d", f"afterany:{first}", "--comment=mirage:c1:1", run="sleep 60"
    )
    let_pass(900)
    return [first, second]


def _to_end() -> Jobs:
    gpu = ("-n1", "--gres=gpu:1")
    jobs = {
        "completed": sbatch(
            "alice", *gpu, "-t", "30", "-J", "resnet", "--comment=mirage:c0:0", run="sleep 600"
        ),
        "failed": sbatch("bob", *gpu, "-t", "30", "-J", "broken", run="sleep 120; exit 7"),
        "timeout": sbatch("carol", *gpu, "-t", "2", "-J", "overtime"),
        "launch-failed": sbatch("bob", *gpu, "-t", "5", "-o", "/no/such/dir/out"),
        "signaled": sbatch("bob", *gpu, "-t", "5", run="kill -9 $$"),
        "array": sbatch(
            "alice",
            *gpu,
            "-t",
            "30",
            "-J",
            "sweep",
            "--array=0-5%3",
            run="sleep 300; exit $((SLURM_ARRAY_TASK_ID == 2))",
        ),
    }
    jobs["dependent-completed"] = sbatch(
        "alice",
        *gpu,
        "-t",
        "30",
        "-d",
        f"afterany:{jobs['completed']}",
        "--comment=mirage:c0:1",
        run="sleep 300",
    )
    jobs["never"] = sbatch("bob", "-t", "5", "-d", f"afterok:{jobs['failed']}")
    jobs["killed-dependent"] = sbatch(
        "bob", "-t", "5", "-d", f"afterok:{jobs['failed']}", "--kill-on-invalid-dep=yes"
    )
    return jobs


def _to_be_interfered_with() -> Jobs:
    gpu = ("-n1", "--gres=gpu:2")
    jobs = {
        "node-failed": sbatch("bob", *gpu, "-w", "gpu08", "-t", "120", "--no-requeue"),
        "node-failed-requeued": sbatch("bob", *gpu, "-w", "gpu08", "-t", "120"),
        "requeued": sbatch("bob", *gpu, "-t", "120", "-J", "again", run=_ONCE),
        "cancelled": sbatch("carol", "-N2", "--gres=gpu:4", "-t", "60", "-J", "unwanted"),
        "cancelled-by-root": sbatch("carol", *gpu, "-t", "60"),
        "cancelled-held": sbatch("carol", "-H", "-t", "60"),
        "no-limit-cancelled": sbatch("alice", "-H", "-p", "debug"),
        "no-limit-long-cancelled": sbatch("alice", "-H", "-p", "long"),
        "suspended": sbatch("carol", *gpu, "-t", "120"),
        "held-requeue": sbatch("alice", *gpu, "-t", "60"),
    }
    jobs["cancelled-dependent"] = sbatch("bob", "-t", "60", "-d", f"afterany:{jobs['requeued']}")
    for name, (job_name, comment) in _HOSTILE.items():
        jobs[name] = sbatch("alice", *gpu, "-t", "120", "-J", job_name, f"--comment={comment}")
    return jobs


def _interfere(jobs: Jobs) -> None:
    let_pass(240)
    for name in ("cancelled", "cancelled-held"):
        _as("carol", "scancel", jobs[name])
    for name in ("no-limit-cancelled", "no-limit-long-cancelled"):
        _as("alice", "scancel", jobs[name])
    _as("bob", "scancel", jobs["cancelled-dependent"])
    _as("root", "scancel", jobs["cancelled-by-root"])
    _as("root", "scontrol", "requeue", jobs["requeued"])
    _as("root", "scontrol", "requeuehold", jobs["held-requeue"])
    _as("root", "scontrol", "update", "NodeName=gpu08", "State=DOWN", "Reason=power supply | fan")
    _as("root", "scontrol", "update", "NodeName=gpu07", "State=DRAIN", "Reason=GPU 3 | ECC errors")
    _as("root", "scontrol", "suspend", jobs["suspended"])


def _to_run() -> Jobs:
    let_pass(900)
    return {
        "running": sbatch(
            "alice",
            "-N2",
            "--gres=gpu:4",
            "-t",
            "24:00:00",
            "-J",
            "llm",
            "--signal=B:USR1@120",
            "--comment=mirage:c1:0",
        ),
        "unlimited": sbatch("bob", "-n1", "--gres=gpu:1", "-p", "long", "-t", "UNLIMITED"),
        "no-limit-debug": sbatch("bob", "-n1", "--gres=gpu:1", "-p", "debug"),
        "het": sbatch("carol", script=_HET),
        "array-running": sbatch("bob", "-n1", "--gres=gpu:1", "-t", "300", "--array=1-20:3%2"),
    }


def _to_stay_pending(jobs: Jobs) -> Jobs:
    whole = ("-N6", "--gres=gpu:8", "-t", "60")
    return {
        "successor": sbatch(
            "alice",
            "-N2",
            "--gres=gpu:4",
            "-t",
            "24:00:00",
            "-J",
            "llm",
            "-d",
            f"afterany:{jobs['running']}",
            "--comment=mirage:c1:1",
        ),
        "two-dependencies": sbatch(
            "bob", "-t", "5", "-d", f"afterok:{jobs['running']}:{jobs['unlimited']},singleton"
        ),
        "any-dependency": sbatch(
            "bob", "-t", "5", "-d", f"afterany:{jobs['running']}?afterok:{jobs['unlimited']}"
        ),
        "singleton": sbatch("alice", "-t", "60", "-J", "llm", "-d", "singleton"),
        "resources": sbatch("carol", *whole),
        "priority": sbatch("carol", *whole, "--nice=50"),
        "held": sbatch("carol", "-H", "-t", "5"),
        "begin": sbatch("bob", "-b", "now+10hours", "-t", "5"),
        "over-limit": sbatch("bob", "-t", "5-0"),
        "down-node": sbatch("bob", "-w", "gpu07", "-t", "60"),
        "no-limit-pending": sbatch("bob", "-p", "debug", "--exclusive"),
        "array-pending": sbatch("carol", *whole, "--array=1-100%4", "--nice=60"),
        "deadline": sbatch("bob", *whole, "--deadline=now+80minutes"),
    }


def _as(user: str, *argv: str) -> None:
    process = clients.run(argv, user=user)
    if process.returncode != 0:
        raise TestbedError(f"{user}: {argv}: {process.stderr.strip()}")


def let_pass(seconds: float) -> None:
    until = clock.now() + seconds
    while clock.now() < until:
        time.sleep(0.05)
