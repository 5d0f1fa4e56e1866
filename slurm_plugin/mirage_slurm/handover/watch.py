"""Find out whether the holder of a lease still runs. Only Slurm's answer can say that it does not.

A heartbeat that changes proves that the holder runs, and saves a question to Slurm. A heartbeat
that stands still proves nothing: a step may be long, a process stopped, a file server slow. Each
node measures the standstill on its own monotonic clock, so the clocks of nodes may differ.
"""

import os
import subprocess
import time

from mirage_slurm.handover import lease_files
from mirage_slurm.planner import lead_rules

ENDED = frozenset(["COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"])
"""The run is over and slurmstepd has seen its processes end; so too with CANCELLED."""
CUT_OFF = frozenset(
    "BOOT_FAIL EXPEDITING NODE_FAIL PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD"
    " REVOKED SPECIAL_EXIT".split()
)
"""Slurm has given the run up, or put it back; on a lost node its processes may live on a while."""
ASK_TIMEOUT_S = 30.0
LONGEST_PAUSE_S = 30.0


def ask_slurm(holder):
    """Ask squeue about a holder. Return `ended`, `cancelled`, `cut off` (its processes may still
    live), `there`, or None: no answer that can be read."""
    argv = ["squeue", "-h", "-t", "all", "-j", holder.job, "-O", "State:32,RestartCnt:16"]
    # SQUEUE_ variables of the user would narrow the answer.
    unfiltered = {
        name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")
    }
    try:
        process = subprocess.run(  # noqa: S603 - squeue, and a number of ours
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(unfiltered, LC_ALL="C"),
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if process.returncode != 0:
        # slurmctld says "Invalid job id" for a job that it has purged. Other errors say nothing.
        return "cut off" if b"Invalid job id" in process.stderr else None
    rows = [row.split() for row in process.stdout.decode("ascii", "replace").split("\n")]
    verdicts = [_judge_row(row, holder) for row in rows if row]
    for verdict in (None, "there", "cut off", "cancelled"):  # a row for each het component
        if verdict in verdicts:
            return verdict
    return "ended" if verdicts else None


def _was_passed_over(chain, holder):
    """Return whether a successor has cancelled the holder's requeued job and taken its place."""
    passed_job = lease_files.read_file(os.path.join(chain, "passed.%d" % (holder.link,))) or ""
    return passed_job.strip() == holder.job


def _judge_row(columns, holder):
    """Return the verdict of one row of squeue; None if the row does not read."""
    if len(columns) != 2 or not columns[1].isdigit():
        return None
    state, restart = columns[0], int(columns[1])
    if state == "CANCELLED":
        return "cancelled"
    if state in ENDED:
        return "ended"
    return "cut off" if state in CUT_OFF or restart > holder.restart else "there"


class Watch(object):
    """The watch over the holder of a lease, until that holder is gone."""

    def __init__(self, leases, lease, stale_s):
        self.lease = lease
        self._leases = leases
        self._stale_s = stale_s
        self._chain = chain = os.path.dirname(leases.root)
        link = str(lease.holder.link)
        self._beats = [leases.get_path("beat", lease.number), os.path.join(chain, "beat", link)]
        self._end = os.path.join(chain, "ends", link)
        self._last_beats = self._read_beats()
        self._still_since = self._ask_at = time.monotonic()
        self._pause_s = min(1.0, stale_s)
        self._verdict = None
        self.floor_s = self._read_floor()
        self._floor_until = time.monotonic() + self._measure_time_to_floor()

    def is_below_floor(self):
        """Return True until the holder has worked for its floor: it is not asked to end before that."""
        return time.monotonic() < self._floor_until

    def _read_floor(self):
        """Return the floor in seconds from the start of the holder's work; 0 for a chain of an older
        wrapper, which sets no MIRAGE_FLOOR."""
        min_runtime_s = lead_rules.parse_whole(os.environ.get("MIRAGE_FLOOR"))
        if min_runtime_s is None:
            return 0
        holder = str(self.lease.holder.link)
        texts = [lease_files.read_file(os.path.join(self._chain, folder, holder))
                 for folder in ("began", "deadline")]  # fmt: skip
        began, deadline = [lead_rules.parse_whole((text or "").strip()) for text in texts]
        limit_s = 0 if began is None or deadline is None else max(0, deadline - began)
        return lead_rules.compute_floor(min_runtime_s, limit_s)

    def _measure_time_to_floor(self):
        """Return the seconds that are left of the floor, at most the floor, since clocks may differ.
        A lease that the holder took back is no new start."""
        age_s = time.time() - self._leases.find_start(self.lease)
        return self.floor_s - min(max(0, age_s), self.floor_s)

    def is_gone(self):
        """Return True once Slurm says that the run is over. A run that was cut off is gone once its
        heartbeat has also stood still for stale_s: its processes may live on for a while."""
        now = time.monotonic()
        beats = self._read_beats()
        if beats != self._last_beats:
            self._ask_at = now + self._stale_s
            if beats[-1] != self._last_beats[-1]:  # the link has written its end
                self._ask_at, self._pause_s = now, min(1.0, self._stale_s)
            self._last_beats, self._still_since = beats, now
        if now >= self._ask_at and self._verdict not in ("ended", "cancelled"):
            self._verdict = self._ask_slurm()
            self._ask_at = self._schedule_question()
        if self._verdict in ("ended", "cancelled"):
            return True
        return self._verdict == "cut off" and now - self._still_since >= self._stale_s

    def is_cancelled(self):
        """Return whether somebody cancelled the holder: that is meant for the chain."""
        return self._verdict == "cancelled"

    def _ask_slurm(self):
        """Ask Slurm. A requeued job that its successor cancelled counts as cut off: that cancellation
        is not meant for the chain."""
        holder = self.lease.holder
        verdict = ask_slurm(holder)
        if verdict == "cancelled" and _was_passed_over(self._chain, holder):
            return "cut off"
        return verdict

    def _schedule_question(self):
        """Return when to ask next.

        No question is asked while the heartbeat moves, unless the link has written its end: then it
        is about to go.
        """
        now = time.monotonic()
        if self._verdict == "there" and self._last_beats[-1] is None:
            until = self._still_since + self._stale_s
            if now < until:
                return until
        pause, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return now + pause

    def _read_beats(self):
        beats = [lease_files.read_file(path) for path in self._beats]
        return beats + [lease_files.read_file(self._end)]
