"""Records what the real slurmctld does with a script: scenes (one plan) and runs (hours).

    python -m tests.support.fidelity.record OUT.json.gz run [--hours 6] [--priority ...] [--seed 1]
    python -m tests.support.fidelity.record OUT.json.gz scene [--priority ...] [--pinned 0.1] ...

A recording holds Slurm's answers as they were printed. `tests.support.fidelity.judge` reads them
again whenever the simulator changes, without a Slurm. Recording needs root, and the testbed to
itself.
"""

import argparse
import fcntl
import gzip
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.fidelity import script as scripts
from tests.support.fidelity.recording import last_cycle
from tests.support.slurm_testbed import Testbed, TestbedSettings

Recording = dict[str, Any]
_LOCK = Path("/run/mirage-testbed.tests")
_SNAPSHOT_EVERY_S = 600
_EPOCHS = {"SLURM_TIME_FORMAT": "%s"}
_HISTORY = (
    "JobID,JobIDRaw,User,Account,Partition,QOS,Submit,Eligible,Start,End,State,NodeList,"
    "ReqTRES,AllocTRES,TimelimitRaw,Flags,Reason"
)
_QOS_LIMIT = 4
# Backfill comes soon and plans in a site's steps; the queue of a scene stands still.
_SCENE_TIMERS = (
    "SchedulerParameters=sched_interval=60,default_queue_depth=1000,"
    "bf_interval=5,bf_resolution=60,bf_window=2880,bf_max_job_test=1000,bf_continue,bf_max_time=60"
)
# Slurm shows no priority below 1: with this, a nice value never leads there.
_BASE = ("PriorityWeightPartition=10000",)


class Recorder:
    """A cluster, brought up fresh, and the recorded moves and snapshots of it."""

    def __init__(self, testbed: Testbed, settings: TestbedSettings) -> None:
        self.testbed = testbed
        self.job_ids: dict[int, int] = {}
        """Slurm's job id of each submission made so far."""
        self.moves: list[dict[str, Any]] = []
        self.snapshots: list[dict[str, Any]] = []
        testbed.up(settings, fresh=True)

    def submit(self, index: int, job: scripts.Submission) -> None:
        dependency = None if job.after is None else str(self.job_ids[job.after])
        run = f"sleep {job.run_s}"
        self.job_ids[index] = self.testbed.sbatch(*job.words(dependency), user=job.user, run=run)

    def move(self, move: scripts.Move) -> None:
        job_id = str(self.job_ids[move.target])
        before = self.testbed.now()
        if move.what == "cancel":
            argv = ["scancel", "--state=PENDING", job_id]
        else:
            argv = [
                "scontrol",
                "update",
                f"JobId={job_id}",
                f"ReqNodeList={scripts.names(move.node_list)}",
            ]
        result = self.testbed.run(argv, check=False)
        fields = {"before": before, "after": self.testbed.now(), "rc": result.returncode}
        self.moves.append(asdict(move) | {"job_id": int(job_id)} | fields)

    def snapshot(self) -> dict[str, Any]:
        before = self.testbed.now()
        jobs = self._query("scontrol", "-o", "show", "job")
        fields = {"before": before, "after": self.testbed.now(), "jobs": jobs}
        fields |= {"sdiag": self._query("sdiag"), "sshare": self._query("sshare", "-a", "-P")}
        self.snapshots.append(fields)
        return fields

    def reserve(self, number: int, reservation: scripts.Reserved) -> None:
        """Reserve nodes for root, who has no jobs; the instants are whole minutes after now."""
        self.testbed.run(
            [
                *("scontrol", "create", "reservation", f"ReservationName=kept{number}"),
                *(
                    f"StartTime=now+{reservation.after_min}minutes",
                    f"Duration={reservation.lasts_min}",
                ),
                *(f"Nodes={scripts.names(reservation.node_list)}", "Users=root", "Flags=OVERLAP"),
            ]
        )

    def site(self) -> dict[str, str]:
        return {
            "reservations": self._query("scontrol", "-o", "show", "reservation"),
            "config": self._query("scontrol", "show", "config"),
            "partitions": self._query("scontrol", "-o", "show", "partition"),
            "nodes": self._query("scontrol", "-o", "show", "node"),
            "qos": self._query(
                *("sacctmgr", "-P", "show", "qos"),
                "format=name,priority,MaxJobsPU,MaxSubmitPU,MaxTRESPU",
            ),
        }

    def history(self) -> str:
        return self._query(
            *("sacct", "-a", "-P", "-X", "-D", "--starttime=2000-01-01"), f"--format={_HISTORY}"
        )

    def last_cycle(self) -> int:
        """Return the instant of the last backfill cycle that has ended; 0: none yet."""
        return last_cycle(self._query("sdiag")) or 0

    def _query(self, *argv: str) -> str:
        return self.testbed.run(argv, env=_EPOCHS).stdout


def record_run(recorder: Recorder, script: scripts.Script, duration_s: int) -> Recording:
    """Do the script in the cluster's time, a snapshot every 10 minutes; return the recording."""
    testbed = recorder.testbed
    site = recorder.site()
    began = testbed.now()
    steps = sorted(_steps(recorder, script, duration_s), key=lambda step: step[0])
    for at_s, step_function, arguments in steps:
        while (left_s := began + at_s - testbed.now()) > 0:
            time.sleep(min(left_s / testbed.speed, 0.5))
        step_function(*arguments)
        _show_progress(f"{at_s / 3600:.2f} h")
    return _recording("run", recorder, site, script) | {"began": began, "duration_s": duration_s}


def _steps(recorder: Recorder, script: scripts.Script, duration_s: int) -> Iterator[Any]:
    for index, job in enumerate(script.submissions):
        yield job.at, recorder.submit, (index, job)
    for move in script.moves:
        if move.at < duration_s:
            yield move.at, recorder.move, (move,)
    for at in range(_SNAPSHOT_EVERY_S, duration_s + 1, _SNAPSHOT_EVERY_S):
        yield at, recorder.snapshot, ()


def record_scene(
    recorder: Recorder, script: scripts.Script, rounds: int = 1, warm_s: int = 0
) -> Recording:
    """Submit all, wait for a backfill cycle that saw it all and started nothing; record its plan.

    With `warm_s`, a tenth of the script is submitted so much earlier: users then differ in usage.
    """
    for number, reservation in enumerate(script.reservations):
        recorder.reserve(number, reservation)
    site = recorder.site()
    began = recorder.testbed.now()
    for index, job in enumerate(script.submissions):
        recorder.submit(index, job)
        if index == len(script.submissions) // 10:
            recorder.testbed.wait_until(
                lambda: recorder.testbed.now() >= began + warm_s, 2 * warm_s, "usage"
            )
    _show_progress(f"{len(script.submissions)} submitted")
    for _ in range(rounds):
        _settled_snapshot(recorder)
    return _recording("scene", recorder, site, script)


def _settled_snapshot(recorder: Recorder) -> None:
    """Take a snapshot whose plan is of a cycle after the queue's last change."""
    since = int(recorder.testbed.now())

    def planned() -> bool:
        cycle = recorder.last_cycle()
        if cycle <= since:
            return False
        first, second = recorder.snapshot(), recorder.snapshot()
        recorder.snapshots.pop()
        # A cycle under way has removed the plans of the jobs that it has not reached yet.
        is_same = _starts(first["jobs"]) == _starts(second["jobs"])
        if is_same and _last_change(first["jobs"]) < cycle == recorder.last_cycle():
            first["cycle"] = cycle
            return True
        recorder.snapshots.pop()
        return False

    recorder.testbed.wait_until(planned, 240, "a backfill cycle after the last change")


def _starts(jobs: str) -> list[str]:
    return [word for word in jobs.split() if word.startswith("StartTime=")]


def _last_change(jobs: str) -> int:
    """Return the last start or submission that `scontrol show job` tells of."""
    instants = [0]
    for line in jobs.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        instants.append(int(fields["SubmitTime"]))
        if fields["JobState"] != "PENDING":
            instants.append(int(fields["StartTime"]))
    return max(instants)


def _recording(
    kind: str, recorder: Recorder, site: dict[str, str], script: scripts.Script
) -> Recording:
    return {
        "kind": kind,
        "speed": recorder.testbed.speed,
        "site": site,
        "submissions": [asdict(job) for job in script.submissions],
        "job_ids": recorder.job_ids,
        "moves": recorder.moves,
        "snapshots": recorder.snapshots,
        "history": recorder.history(),
    }


@contextmanager
def site_for_fidelity(testbed: Testbed) -> Iterator[None]:
    """Give users shares of their own and the QOS `low` a limit, and take both back."""
    _manage(testbed, "fairshare=1", str(_QOS_LIMIT))
    try:
        yield
    finally:
        _manage(testbed, "fairshare=parent", "-1")


def _manage(testbed: Testbed, fairshare: str, limit: str) -> None:
    users = "where", "name=alice,bob,carol"
    testbed.run(["sacctmgr", "-i", "-Q", "modify", "user", *users, "set", fairshare], check=False)
    testbed.run(["sacctmgr", "-i", "-Q", "modify", "qos", "low", "set", f"MaxJobsPU={limit}"])


def write(recording: Recording, path: Path) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(recording, file)


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}    ")


def run_settings(priority: str, extra: tuple[str, ...] = ()) -> TestbedSettings:
    return TestbedSettings(speed=60, priority=_regime(priority), extra=(*_BASE, *extra))


def scene_settings(priority: str, extra: tuple[str, ...] = (), speed: int = 1) -> TestbedSettings:
    timers = (_SCENE_TIMERS,) if speed == 1 else ()
    return TestbedSettings(speed=speed, priority=_regime(priority), extra=(*timers, *_BASE, *extra))


def _regime(priority: str) -> Any:
    return priority


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("kind", choices=("run", "scene"))
    parser.add_argument("--priority", choices=("age", "fairshare"), default="age")
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", type=int, default=1, help="of a scene")
    parser.add_argument("--warm", type=int, default=0, help="seconds of usage before a scene")
    parser.add_argument("--rounds", type=int, default=1, help="plans of a scene")
    parser.add_argument("--running", type=int, default=30)
    parser.add_argument("--pending", type=int, default=300)
    parser.add_argument("--mix", default="{}", help="JSON of script.Mix's fields")
    parser.add_argument("--extra", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    mix = scripts.Mix(**json.loads(options.mix))
    testbed = Testbed()
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        extra = tuple(options.extra)
        if options.kind == "run":
            settings = run_settings(options.priority, extra)
        else:
            settings = scene_settings(options.priority, extra, options.speed)
        recorder = Recorder(testbed, settings)
        with site_for_fidelity(testbed):
            if options.kind == "run":
                duration_s = int(options.hours * 3600)
                script = scripts.make(options.seed, duration_s, mix)
                recording = record_run(recorder, script, duration_s)
            else:
                script = scripts.build_queue_script(
                    options.seed, options.running, options.pending, mix
                )
                recording = record_scene(recorder, script, options.rounds, options.warm)
    write(recording, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
