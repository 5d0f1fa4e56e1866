"""Writes what the Slurm here answers to tests/data/slurm-RELEASE/: as root, about two minutes.

The workload is in `workload.py`. Answers that parsers read are files of their own; outcomes, where
standard error and the exit code matter too, are JSON.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import clients
import cluster
import daemons
import host
import release
import workload
from settings import Settings, TestbedError

_SPEED = 60
_UNIT = "\x1f"
_EPOCHS = {"SLURM_TIME_FORMAT": "%s"}

_SACCT_FIELDS = (
    "JobID,JobIDRaw,JobName,User,UID,Account,Partition,QOS,Submit,Eligible,Start,End,ElapsedRaw,"
    "{waited},State,ExitCode,TimelimitRaw,ReqTRES,AllocTRES,NNodes,NCPUS,NodeList,Priority,Reason,"
    "Flags,Comment,SubmitLine"
)
SQUEUE_FIELDS = (
    "%i|%A|%F|%K|%u|%U|%a|%P|%q|%j|%T|%r|%Q|%V|%S|%e|%l|%L|%M|%D|%C|%b|%E|%N|%Y|%p|%v|%k"
)
# Each field has a width: without a width -O cuts at 20 characters.
SQUEUE_LONG_FIELDS = (
    "JobArrayID:40,JobID:12,ArrayJobID:12,ArrayTaskID:30,HetJobID:12,HetJobOffset:12,UserName:32,"
    "UserID:12,Account:32,Partition:32,QOS:32,State:20,Reason:40,PriorityLong:20,SubmitTime:24,"
    "EligibleTime:24,AccrueTime:24,StartTime:24,EndTime:24,TimeLimit:20,NumNodes:12,NumCPUs:12,"
    "tres-alloc:120,tres-per-node:60,Dependency:120,NodeList:80,SchedNodes:80,ReqNodes:80,"
    "RestartCnt:12,Comment:120,Name:120"
)
SINFO_FIELDS = "%N|%P|%T|%a|%c|%m|%G|%O|%e|%l|%L|%C|%E"
SINFO_LONG_FIELDS = (
    "NodeList:40,Partition:32,StateLong:24,CPUsState:24,Gres:60,GresUsed:60,Memory:16,AllocMem:16,"
    "Reason:120,Timestamp:24"
)


# sacct over a window leaves these out.
_NEVER_ELIGIBLE = (
    "never",
    "successor",
    "held",
    "cancelled-held",
    "cancelled-dependent",
    "no-limit-cancelled",
    "no-limit-long-cancelled",
)


class Album:
    """The directory of captures and the index that says which command made which file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines: list[str] = []
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    def chapter(self, title: str) -> None:
        self._lines += ["", f"## {title}", ""]

    def answer(self, name: str, argv: Sequence[str], *, epochs: bool = False) -> None:
        """Keep standard output alone; a failure is a fault of this program."""
        process = clients.run(argv, user="alice", env=_EPOCHS if epochs else None)
        if process.returncode != 0:
            raise TestbedError(f"{shlex.join(argv)}: {process.stderr.strip()}")
        (self._directory / name).write_text(process.stdout)
        self._index(name, ("SLURM_TIME_FORMAT=%s " if epochs else "") + _shown(argv))

    def outcome(
        self, name: str, argv: Sequence[str], *, user: str = "alice", script: str | None = None
    ) -> None:
        """Keep everything a caller of the command sees."""
        begin = time.monotonic()
        process = clients.run(argv, user=user, script=script)
        record = {
            "user": user,
            "argv": list(argv),
            "stdin": script,
            "returncode": process.returncode,
            "stdout": process.stdout,
            "stderr": process.stderr,
            "seconds": round(time.monotonic() - begin, 1),
        }
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (self._directory / f"{name}.json").write_text(text + "\n")
        self._index(f"{name}.json", f"{user}: {_shown(argv)} → {process.returncode}")

    def close(self, preface: str) -> None:
        (self._directory / "INDEX.md").write_text("\n".join([preface.strip(), *self._lines, ""]))

    def _index(self, name: str, command: str) -> None:
        self._lines.append(f"- `{name}`: `{command}`")


def _shown(argv: Sequence[str]) -> str:
    return shlex.join(argv).replace(_UNIT, "␟").replace("\n", "⏎")


_PREFACE = """
# Answers of a real {release}

Written by `deploy/testbed/capture.py`; not to be edited. The testbed ran at {speed} times the
clock, so minutes pass between two files; outages are in real time. ␟ stands for the byte 0x1f.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="capture.py", description=__doc__)
    parser.add_argument("--into", type=Path, help="instead of tests/data/slurm-RELEASE")
    options = parser.parse_args(arguments)
    try:
        host.require_root()
        with cluster.exclusively():
            _capture(Album(options.into or release.data_folder()))
    except TestbedError as error:
        sys.stderr.write(f"capture: {error}\n")
        return 1
    return 0


def _capture(album: Album) -> None:
    # Settings of its own: always a new cluster, and one that remembers ended jobs for hours.
    cluster.up(Settings(speed=_SPEED, extra=("MinJobAge=14400",)))
    jobs = workload.submit()
    _telemetry(album, jobs)
    _controller(album, jobs)
    _refusals(album, jobs)
    _submissions(album)
    _hostile_lines(album)
    _without_store_flags(album)
    _outages(album)
    album.close(_PREFACE.format(release=release.described(), speed=_SPEED))


def _sacct(*more: str) -> list[str]:
    return ["sacct", "-a", "-X", "-P", "-D", "-S", "now-1days", "-o", _sacct_fields(), *more]


def _sacct_fields() -> str:
    return _SACCT_FIELDS.format(waited=_waited()[0])


@cache
def _waited() -> tuple[str, str]:
    """What this release calls the wait, and what the releases on the other side of 23.02 do."""
    fields = clients.run(["sacct", "--helpformat"]).stdout.split()
    return ("Planned", "Reserved") if "Planned" in fields else ("Reserved", "Planned")


def _units(fields: str) -> str:
    return fields.replace("|", _UNIT)


def _suffixed(fields: str) -> str:
    return ",".join(f"{field}{_UNIT}" for field in fields.split(","))


def _telemetry(album: Album, jobs: workload.Jobs) -> None:
    album.chapter("Queue")
    squeue = ["squeue", "-a", "-t", "all", "-o", _units(SQUEUE_FIELDS)]
    album.answer("squeue.txt", squeue)
    album.answer("squeue-epochs.txt", squeue, epochs=True)
    album.answer("squeue-tasks.txt", [*squeue, "-r"])
    album.answer("squeue-pipe.txt", ["squeue", "-a", "-t", "all", "-o", SQUEUE_FIELDS])
    long = ["squeue", "-a", "-t", "all", "-O"]
    album.answer("squeue-long.txt", [*long, SQUEUE_LONG_FIELDS])
    album.answer("squeue-long-units.txt", [*long, _suffixed(SQUEUE_LONG_FIELDS)])
    album.answer("squeue-long-epochs.txt", [*long, _suffixed(SQUEUE_LONG_FIELDS)], epochs=True)
    album.answer("squeue-start.txt", ["squeue", "-h", "--start", "-o", _units("%i|%S|%T|%r|%Y")])
    album.chapter("Accounting")
    album.answer("sacct-help-format.txt", ["sacct", "--helpformat"])
    album.answer("sacct.txt", _sacct())
    album.answer("sacct-units.txt", _sacct(f"--delimiter={_UNIT}"))
    album.answer("sacct-epochs.txt", _sacct(f"--delimiter={_UNIT}"), epochs=True)
    never = ",".join(jobs[name] for name in _NEVER_ELIGIBLE)
    album.answer(
        "sacct-by-id.txt",
        ["sacct", "-X", "-P", "-D", "-j", never, "-o", _sacct_fields(), f"--delimiter={_UNIT}"],
    )
    album.chapter("Nodes")
    album.answer("sinfo.txt", ["sinfo", "-N", "-o", _units(SINFO_FIELDS)])
    album.answer("sinfo-long.txt", ["sinfo", "-N", "-O", SINFO_LONG_FIELDS])
    album.answer("sinfo-long-units.txt", ["sinfo", "-N", "-O", _suffixed(SINFO_LONG_FIELDS)])


def _controller(album: Album, jobs: workload.Jobs) -> None:
    album.chapter("Controller")
    for what in ("config", "partition", "node"):
        album.answer(f"scontrol-show-{what}.txt", ["scontrol", "-o", "show", what])
    for name in sorted(jobs):
        show = ["scontrol", "-o", "show", "job", jobs[name]]
        album.answer(f"scontrol-show-job-{name}.txt", show)
    album.answer("scontrol-show-job-all.txt", ["scontrol", "-o", "show", "job"])
    album.answer("scontrol-ping.txt", ["scontrol", "ping"])
    album.answer("sdiag.txt", ["sdiag"])
    album.answer("sprio.txt", ["sprio", "-h", "-o", _units("%i|%u|%Y|%A|%F|%J|%P|%Q")])
    album.answer("sshare.txt", ["sshare", "-a", "-l", "-P"])


def _refusals(album: Album, jobs: workload.Jobs) -> None:
    album.chapter("Updates, refused and done")
    pending, ended = jobs["successor"], jobs["completed"]
    free = ["scontrol", "update", f"JobId={pending}", "Dependency="]
    album.outcome("update-by-another-user", free, user="bob")
    album.outcome("update-no-such-job", ["scontrol", "update", "JobId=999999", "Dependency="])
    album.outcome("update-ended-job", ["scontrol", "update", f"JobId={ended}", "Dependency="])
    album.outcome("scancel-ended-job", ["scancel", ended])
    album.outcome(
        "update-bad-dependency",
        ["scontrol", "update", f"JobId={pending}", "Dependency=afterany:999999"],
    )
    album.outcome("update-bad-key", ["scontrol", "update", f"JobId={pending}", "Nonsense=1"])
    album.outcome(
        "update-dependency-of-running",
        ["scontrol", "update", f"JobId={jobs['running']}", "Dependency="],
    )
    album.outcome(
        "update-comment-by-operator",
        ["scontrol", "update", f"JobId={pending}", "Comment=by the operator"],
        user="mirage",
    )
    album.outcome(
        "update-admin-comment-by-operator",
        ["scontrol", "update", f"JobId={pending}", "AdminComment=mirage"],
        user="mirage",
    )
    album.outcome("update-by-operator", free, user="mirage")
    rearm = f"Dependency=afterany:{jobs['running']}"
    album.outcome(
        "rearm-by-operator", ["scontrol", "update", f"JobId={pending}", rearm], user="mirage"
    )
    album.outcome(
        "pin-by-operator",
        ["scontrol", "update", f"JobId={pending}", "Dependency=", "ReqNodeList=gpu01"],
        user="mirage",
    )
    album.outcome("show-no-such-job", ["scontrol", "-o", "show", "job", "999999"])
    album.outcome("squeue-no-such-job", ["squeue", "-h", "-j", "999999"])
    album.outcome("squeue-two-one-gone", ["squeue", "-h", "-j", f"999999,{pending}", "-o", "%i"])
    album.outcome("squeue-bad-option", ["squeue", "--nonsense"])
    album.outcome("sacct-no-such-job", ["sacct", "-n", "-X", "-P", "-j", "999999"])
    album.outcome("sacct-bad-field", ["sacct", "-X", "-P", "-o", f"JobID,{_waited()[1]}"])
    album.outcome("scancel-another-users", ["scancel", pending], user="bob")
    album.outcome("scancel-no-such-job", ["scancel", "999999"])


def _submissions(album: Album) -> None:
    album.chapter("sbatch")
    quiet = ["-o", "/dev/null", "-t", "5"]
    wrap = ["--wrap", "sleep 60"]
    cases: dict[str, tuple[list[str], str | None]] = {
        "success": ([*quiet, *wrap], None),
        "parsable": (["--parsable", *quiet, *wrap], None),
        "quiet": (["-Q", *quiet, *wrap], None),
        "array": ([*quiet, "--array=0-2", *wrap], None),
        "array-parsable": (["--parsable", *quiet, "--array=0-2", *wrap], None),
        "stdin": (quiet, "#!/bin/sh\nsleep 60\n"),
        "het": (quiet, "#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\nsleep 60\n"),
        "test-only": (["--test-only", *quiet, *wrap], None),
        "test-only-refused": (["--test-only", *quiet, "-N", "99", *wrap], None),
        "bad-option": (["--nonsense", *wrap], None),
        "bad-value": (["--time=soon", *wrap], None),
        "no-script": ([*quiet, "/no/such/script.sh"], None),
        "not-a-script": (quiet, "sleep 60\n"),
        "empty-script": (quiet, ""),
        "too-many-nodes": ([*quiet, "-N", "99", *wrap], None),
        "bad-partition": ([*quiet, "-p", "nowhere", *wrap], None),
        "bad-account": ([*quiet, "-A", "nobody", *wrap], None),
        "bad-qos": ([*quiet, "-q", "gold", *wrap], None),
        "bad-gres": ([*quiet, "--gres=tape:1", *wrap], None),
        "bad-dependency": ([*quiet, "-d", "afterany:999999", *wrap], None),
        "over-partition-limit": (["-o", "/dev/null", "-t", "5-0", *wrap], None),
        "version": (["--version"], None),
    }
    for name, (words, script) in cases.items():
        album.outcome(f"sbatch-{name}", ["sbatch", *words], script=script)


def _hostile_lines(album: Album) -> None:
    """A line feed, or the separator itself, inside a field; kept apart from all that is sane."""
    album.chapter("Fields that break lines and columns")
    cluster.cancel_all()
    comments = ("first line\nsecond | line", f"with{_UNIT}separator", "back\\slash \\n")
    jobs = [
        workload.sbatch("alice", "-t", "5", f"--comment={comment}", "-J", comment, run="sleep 60")
        for comment in comments
    ]
    album.answer("hostile-squeue.txt", ["squeue", "-h", "-t", "PD,R", "-o", _units("%i|%T|%j|%k")])
    album.answer("hostile-scontrol.txt", ["scontrol", "-o", "show", "job", jobs[0]])
    workload.let_pass(300)  # sacct has a comment only once its job has ended
    fields = ["-o", "JobID,State,JobName,Comment", f"--delimiter={_UNIT}"]
    album.answer("hostile-sacct.txt", ["sacct", "-n", "-X", "-P", "-j", ",".join(jobs), *fields])


def _without_store_flags(album: Album) -> None:
    album.chapter("AccountingStoreFlags empty")
    cluster.up(Settings(speed=_SPEED, store_flags=False))
    jobs = workload.submit_few()
    fields = ["-o", _sacct_fields(), f"--delimiter={_UNIT}"]
    album.answer(
        "sacct-no-store-flags.txt", ["sacct", "-X", "-P", "-D", "-j", ",".join(jobs), *fields]
    )


_ASKED = {
    "squeue": ["squeue", "-h", "-o", "%i"],
    "sinfo": ["sinfo", "-h"],
    "scontrol-ping": ["scontrol", "ping"],
    "scontrol-show-job": ["scontrol", "-o", "show", "job"],
    "scontrol-update": ["scontrol", "update", "JobId=1", "Dependency="],
    "scancel": ["scancel", "1"],
    "sacct": ["sacct", "-n", "-X", "-P", "-o", "JobID"],
    "sdiag": ["sdiag"],
    "sbatch": ["sbatch", "-o", "/dev/null", "-t", "5", "--wrap", "true"],
    "sbatch-test-only": ["sbatch", "--test-only", "-t", "5", "--wrap", "true"],
}


def _outages(album: Album) -> None:
    """In real time, since the captures also show how long a command waits before it gives up."""
    cluster.up(Settings())
    _asked_during(album, "slurmdbd", cluster.start_slurmdbd)
    _asked_during(album, "slurmctld", cluster.start_controller)
    album.chapter("No slurm.conf")
    album.outcome(
        "no-slurm-conf-squeue", ["env", "SLURM_CONF=/no/such/slurm.conf", *_ASKED["squeue"]]
    )


def _asked_during(album: Album, daemon: str, start: Callable[[], None]) -> None:
    album.chapter(f"{daemon} down")
    daemons.stop([daemon])
    try:
        for name, argv in _ASKED.items():
            album.outcome(f"{daemon}-down-{name}", argv)
    finally:
        start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
